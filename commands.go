package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/internal/stored"
)

// The commands to a node.
const (
	// CommandFreeze: claim nothing, rebalance nothing, keep what runs.
	CommandFreeze = "freeze"
	// CommandUnfreeze: the reverse of freeze, and of Node.Drain.
	CommandUnfreeze = "unfreeze"
	// CommandBalance: rebalance at once, even when frozen.
	CommandBalance = "balance"
	// CommandStopTask: release one running task, {"task": ID}, even when frozen.
	CommandStopTask = "stop_task"
	// CommandDrain: release everything at a pace, {"per_second": N}, or within a time,
	// {"within": "1m"}. Sending it also cordons the node; operate.Operator.Uncordon is the reverse
	// of both.
	CommandDrain = "drain"
)

// Command is the value of nodes/<node>/commands/<id>.
type Command struct {
	Command    string          `json:"command"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// parseCommand parses a command: JSON, or the plain name used in the oldest layout.
func parseCommand(value []byte) (Command, error) {
	text := strings.TrimSpace(string(value))
	if !strings.HasPrefix(text, "{") {
		return Command{Command: text}, nil
	}
	var c Command
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return Command{Command: shorten.To(text, 80)}, fmt.Errorf("malformed: %w", err)
	}
	return c, nil
}

var nodeCommands = []string{CommandFreeze, CommandUnfreeze, CommandBalance, CommandStopTask, CommandDrain}

// decodeParameters parses a command's parameters strictly: a misspelt one must not
// silently do something else.
func decodeParameters(raw json.RawMessage, into any) error {
	if len(raw) == 0 {
		return nil
	}
	if fault := stored.Check(raw, into, stored.Bounds{}); fault != nil {
		return badInput("parameters", string(raw), fault.Error())
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return badInput("parameters", string(raw), err.Error())
	}
	return nil
}

// checkCommand refuses a command that every node would discard.
func checkCommand(c Command) error {
	if !slices.Contains(nodeCommands, c.Command) {
		return badInput("command", c.Command, "must be one of "+strings.Join(nodeCommands, ", "))
	}
	switch c.Command {
	case CommandStopTask:
		_, err := stopTaskParameters(c.Parameters)
		return err
	case CommandDrain:
		_, _, err := drainParameters(c.Parameters)
		return err
	}
	return decodeParameters(c.Parameters, &struct{}{})
}

func stopTaskParameters(raw json.RawMessage) (string, error) {
	var p struct {
		Task string `json:"task"`
	}
	if err := decodeParameters(raw, &p); err != nil {
		return "", err
	}
	if p.Task == "" {
		return "", badInput("parameters", string(raw), `must be {"task": ID}`)
	}
	return p.Task, nil
}

// drainParameters returns the pace of a drain; within takes precedence if it is not
// zero.
func drainParameters(raw json.RawMessage) (perSecond int, within time.Duration, err error) {
	p := struct {
		PerSecond int    `json:"per_second"`
		Within    string `json:"within"`
	}{PerSecond: drainRateDefault}
	if err := decodeParameters(raw, &p); err != nil {
		return 0, 0, err
	}
	if p.PerSecond < 1 || p.PerSecond > drainRateMax {
		return 0, 0, badInput("per_second", p.PerSecond, fmt.Sprintf("must be from 1 to %d", drainRateMax))
	}
	if p.Within == "" {
		return p.PerSecond, 0, nil
	}
	within, err = time.ParseDuration(p.Within)
	if err != nil || within < drainTick || within > drainWithinMax {
		return 0, 0, badInput("within", p.Within, fmt.Sprintf("must be a duration from %v to %v", drainTick, drainWithinMax))
	}
	return p.PerSecond, within, nil
}

// Send sends a command to a node, which carries its commands out in the order in which
// they were sent. It returns ErrNotFound if the node is not there.
func (c *Client) Send(ctx context.Context, node string, command Command) error {
	if err := keys.CheckNodeName(node); err != nil {
		return err
	}
	if err := checkCommand(command); err != nil {
		return err
	}
	value, err := json.Marshal(command)
	if err != nil {
		return badInput("parameters", string(command.Parameters), "must be valid JSON")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("send a command: %w", err)
	}
	if err := c.checkLayout(ctx); err != nil {
		return fmt.Errorf("send a command to node %q: %w", node, err)
	}
	key, cordon := c.space.NodeCommand(node, id.String()), c.space.NodeCordon(node)
	for range attempts.Max {
		r, err := broker.CommitOne(ctx, c.broker, broker.Txn{Then: []broker.Op{broker.Read(c.space.NodeInfo(node)), broker.Read(cordon)}})
		if err != nil {
			return fmt.Errorf("send a command to node %q: %w", node, err)
		}
		info := r.Reads[0]
		if info == nil {
			break
		}
		// The command lives with the node's session: it is lost when the node goes.
		txn := broker.Txn{
			If:   []broker.Cond{broker.Created(info.Key, info.Created), broker.Absent(key)},
			Then: []broker.Op{broker.PutSession(key, value, info.Session)},
		}
		if command.Command == CommandDrain && r.Reads[1] == nil {
			txn.If = append(txn.If, broker.Absent(cordon))
			txn.Then = append(txn.Then, suspend(ctx, cordon, "drained"))
		}
		r, maybe, err := attempts.Commit(ctx, c.broker, txn)
		switch {
		case err != nil && !errors.Is(err, broker.ErrSessionExpired):
			return fmt.Errorf("send a command to node %q: %w", node, err)
		case err == nil && (r.OK || maybe):
			return nil
		}
	}
	return fmt.Errorf("node %q: %w", node, ErrNotFound)
}
