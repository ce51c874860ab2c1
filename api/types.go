package api

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
)

// typeCommand is a command to all tasks of a type. Its JSON is stable.
type typeCommand struct {
	Type    string `json:"type" doc:"the type; empty is that of the tasks without one"`
	Command string `json:"command" enum:"pause,resume" doc:"the command"`
	Reason  string `json:"reason,omitempty" doc:"with pause: why, for people"`
}

// typeDone is a command to a type that was stored. Its JSON is stable.
type typeDone struct {
	Type    string `json:"type"`
	Command string `json:"command"`
	Result  string `json:"result" enum:"done" doc:"it is stored, and the nodes follow"`
}

type typeCommandInput struct{ Sent typeCommand }

func (s *Server) registerTypes() {
	const tag = "types"
	add(s, endpoint{ID: "listTypes", Whole: true, Method: http.MethodGet, Path: "/v1/types", Tag: tag,
		Summary: "List the types that tasks have, that nodes run, or that are paused",
	}, func(ctx context.Context, _ *noBody) (*ok[[]windlass.TypeStatus], error) {
		return answerWith(s.client.Types(ctx))
	})
	add(s, endpoint{ID: "commandType", Method: http.MethodPost, Path: "/v1/types/commands", Tag: tag, Role: RoleOperate, Errors: []int{http.StatusNotFound},
		Summary: "Pause or resume a type",
		Description: "While a type is paused, nodes run none of its tasks: those that run are stopped, and those that are submitted or wake up later are paused as well. " +
			"After resume they run again. All have stopped once none is running.",
	}, s.commandType)
}

func (s *Server) commandType(ctx context.Context, in *typeCommandInput) (*ok[typeDone], error) {
	o := in.Sent
	note(ctx, slog.String("type", o.Type), slog.String("command", o.Command))
	var err error
	switch {
	case o.Command == "pause":
		err = s.operator.PauseType(ctx, o.Type, o.Reason)
	case o.Command != "resume":
		err = badInput("command", shown(o.Command), `must be "pause" or "resume"`)
	case o.Reason != "":
		err = badInput("reason", o.Reason, "goes with pause alone")
	default:
		err = s.operator.ResumeType(ctx, o.Type)
	}
	return answerWith(typeDone{Type: o.Type, Command: o.Command, Result: view.ResultDone}, err)
}
