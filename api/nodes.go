package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/operate"
)

type nodeInput struct {
	Name string `path:"name" doc:"name of the node"`
}

// nodeCommand is a command to a node. Its JSON is stable.
type nodeCommand struct {
	Command string `json:"command" enum:"cordon,uncordon,drain,freeze,unfreeze,balance,stop-task" doc:"the command"`
	// PerSecond and Within are the pace of a drain.
	PerSecond int    `json:"per_second,omitempty" minimum:"1" doc:"with drain: how many tasks to give back in a second; default 200"`
	Within    string `json:"within,omitempty" doc:"with drain: time in which to give all tasks back, instead of per_second"`
	// Reason is why a node is cordoned.
	Reason string `json:"reason,omitempty" doc:"with cordon: why, for people"`
	Task   string `json:"task,omitempty" doc:"with stop-task: the task to give back"`
}

// nodeSent is a command that was sent to a node. Its JSON is stable.
type nodeSent struct {
	Node    string `json:"node"`
	Command string `json:"command"`
	Result  string `json:"result" enum:"sent,done" doc:"a node carries out what is sent to it; a cordon is stored"`
}

type nodeCommandInput struct {
	Name string `path:"name" doc:"name of the node"`
	Sent nodeCommand
}

type planInput struct {
	Joins  []string `query:"join,explode" doc:"node that joins: NAME, or NAME:weight=N,capacity=N,zone=Z,label.KEY=VALUE; repeatable"`
	Leaves []string `query:"leave,explode" doc:"node that leaves; repeatable"`
	Sets   []string `query:"set,explode" doc:"node that changes: as join, with frozen=BOOL besides; repeatable"`
}

func (s *Server) registerNodes() {
	const tag = "nodes"
	add(s, endpoint{ID: "listNodes", Method: http.MethodGet, Path: "/v1/nodes", Tag: tag,
		Summary: "List the nodes that are there, and those that are away and are to be back",
	}, func(ctx context.Context, _ *noBody) (*ok[[]windlass.NodeStatus], error) {
		return answerWith(s.client.Nodes(ctx))
	})
	add(s, endpoint{ID: "getNode", Method: http.MethodGet, Path: "/v1/nodes/{name}", Tag: tag, Errors: []int{http.StatusNotFound},
		Summary: "One node",
	}, func(ctx context.Context, in *nodeInput) (*ok[windlass.NodeStatus], error) {
		nodes, err := s.client.Nodes(ctx)
		for _, n := range nodes {
			if n.Name == in.Name {
				return &ok[windlass.NodeStatus]{n}, nil
			}
		}
		if err == nil {
			err = fmt.Errorf("node %q: %w", in.Name, windlass.ErrNotFound)
		}
		return nil, err
	})
	add(s, endpoint{ID: "commandNode", Method: http.MethodPost, Path: "/v1/nodes/{name}/commands", Tag: tag, Role: RoleOperate,
		Status: http.StatusAccepted, Errors: []int{http.StatusNotFound},
		Summary:     "Send a command to a node",
		Description: "The node carries out commands in order; the list of nodes shows when.",
	}, s.commandNode)
	add(s, endpoint{ID: "listCordons", Method: http.MethodGet, Path: "/v1/cordons", Tag: tag,
		Summary: "List the cordons by node, those of nodes that are not there included",
	}, func(ctx context.Context, _ *noBody) (*ok[map[string]windlass.Suspension], error) {
		return answerWith(s.operator.Cordons(ctx))
	})
	add(s, endpoint{ID: "listDeaths", Method: http.MethodGet, Path: "/v1/deaths", Tag: tag,
		Summary: "List the nodes that vanished without notice within the last hour, the latest first",
	}, func(ctx context.Context, _ *noBody) (*ok[[]events.Death], error) {
		return answerWith(s.operator.Deaths(ctx))
	})
	add(s, endpoint{ID: "plan", Whole: true, Method: http.MethodGet, Path: "/v1/plan", Tag: tag, Errors: []int{http.StatusNotFound},
		Summary: "What would move if nodes joined, left or changed", Description: "Nothing is changed.",
	}, func(ctx context.Context, in *planInput) (*ok[inspect.Plan], error) {
		report, err := s.inspector.Plan(ctx, view.NodeEdits{Joins: in.Joins, Leaves: in.Leaves, Sets: in.Sets}.Apply)
		if report.Moves == nil {
			report.Moves = []inspect.PlannedMove{}
		}
		if report.Nodes == nil {
			report.Nodes = []inspect.PlannedNode{}
		}
		return answerWith(report, err)
	})
}

// nodeCommands are the library's commands, by name in the API, which has cordons besides.
var nodeCommands = map[string]string{
	"freeze": operate.Freeze, "unfreeze": operate.Unfreeze, "balance": operate.Balance,
	"drain": operate.Drain, "stop-task": operate.StopTask,
}

func (s *Server) commandNode(ctx context.Context, in *nodeCommandInput) (*ok[nodeSent], error) {
	note(ctx, slog.String("node", in.Name), slog.String("command", in.Sent.Command))
	if in.Sent.Task != "" {
		note(ctx, slog.String("task", in.Sent.Task))
	}
	if in.Sent.PerSecond != 0 || in.Sent.Within != "" {
		note(ctx, slog.Int("per_second", in.Sent.PerSecond), slog.String("within", in.Sent.Within))
	}
	c, err := in.Sent.command()
	result := view.ResultDone
	switch {
	case err != nil:
	case in.Sent.Command == "cordon":
		_, err = s.operator.Cordon(ctx, in.Name, in.Sent.Reason)
	case in.Sent.Command == "uncordon":
		err = s.operator.Uncordon(ctx, in.Name)
	default:
		result, err = view.ResultSent, s.operator.Send(ctx, in.Name, c)
	}
	return answerWith(nodeSent{Node: in.Name, Command: in.Sent.Command, Result: result}, err)
}

func (o nodeCommand) command() (operate.Command, error) {
	c := operate.Command{Command: nodeCommands[o.Command]}
	parameters := map[string]any{}
	switch drains, stops := o.Command == "drain", o.Command == "stop-task"; {
	case !drains && o.PerSecond != 0:
		return c, badInput("per_second", o.PerSecond, "goes with drain alone")
	case !drains && o.Within != "":
		return c, badInput("within", o.Within, "goes with drain alone")
	case o.PerSecond != 0 && o.Within != "":
		return c, badInput("within", o.Within, "per_second and within exclude each other")
	case o.Reason != "" && o.Command != "cordon":
		return c, badInput("reason", o.Reason, "goes with cordon alone")
	case stops != (o.Task != ""):
		return c, badInput("task", o.Task, "goes with stop-task, which needs it")
	case o.PerSecond != 0:
		parameters["per_second"] = o.PerSecond
	case o.Within != "":
		parameters["within"] = o.Within
	case stops:
		parameters["task"] = o.Task
	}
	if len(parameters) == 0 {
		return c, nil
	}
	var err error
	c.Parameters, err = json.Marshal(parameters)
	return c, err
}
