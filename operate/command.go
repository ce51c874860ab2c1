package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/invalid"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/nodecommand"
)

// The commands to a node.
const (
	// Freeze: claim nothing, rebalance nothing, keep what runs.
	Freeze = nodecommand.Freeze
	// Unfreeze: the reverse of Freeze, and of windlass.Node.Drain.
	Unfreeze = nodecommand.Unfreeze
	// Balance: rebalance at once, even when frozen.
	Balance = nodecommand.Balance
	// StopTask: release one running task, {"task": ID}, even when frozen.
	StopTask = nodecommand.StopTask
	// Drain: release everything at a pace, {"per_second": N}, or within a time,
	// {"within": "1m"}. Sending it also cordons the node; Operator.Uncordon is the reverse
	// of both.
	Drain = nodecommand.Drain
)

// Command is a command to a node.
type Command struct {
	// Command is its name, such as Freeze.
	Command string `json:"command"`
	// Parameters are a JSON object, if it takes any.
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// Send sends a command to a node, which carries its commands out in the order in which
// they were sent. It returns windlass.ErrNotFound if the node is not there.
func (o *Operator) Send(ctx context.Context, node string, command Command) error {
	if err := keys.CheckNodeName(node); err != nil {
		return err
	}
	if err := nodecommand.Command(command).Check(); err != nil {
		return err
	}
	value, err := json.Marshal(command)
	if err != nil {
		return &invalid.Input{Field: "parameters", Value: string(command.Parameters), Limit: "must be valid JSON"}
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("send a command: %w", err)
	}
	if err := o.layout.Check(ctx, o.broker, o.space); err != nil {
		return fmt.Errorf("send a command to node %q: %w", node, err)
	}
	key, cordon := o.space.NodeCommand(node, id.String()), o.space.NodeCordon(node)
	for range attempts.Max {
		r, err := broker.CommitOne(ctx, o.broker, broker.Txn{Then: []broker.Op{broker.Read(o.space.NodeInfo(node)), broker.Read(cordon)}})
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
		if command.Command == Drain && r.Reads[1] == nil {
			txn.If = append(txn.If, broker.Absent(cordon))
			txn.Then = append(txn.Then, suspend(ctx, cordon, "drained"))
		}
		r, maybe, err := attempts.Commit(ctx, o.broker, txn)
		switch {
		case err != nil && !errors.Is(err, broker.ErrSessionExpired):
			return fmt.Errorf("send a command to node %q: %w", node, err)
		case err == nil && (r.OK || maybe):
			return nil
		}
	}
	return fmt.Errorf("node %q: %w", node, windlass.ErrNotFound)
}
