package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/statemachine"
)

// Sending is a command to a task.
type Sending struct {
	// ID of the task.
	ID string
	// Command to it.
	Command statemachine.Command
}

// Sent is the outcome of sending one command.
type Sent struct {
	// Revision distinguishes the command from those sent to the task before and after.
	Revision broker.Revision
	// State is the stored state record, if the task does not exist.
	State []byte
	// Err is ErrGone for a task that does not exist, ErrSuperseded for a checkpoint to one
	// for which another command waits, or the broker's error.
	Err error
}

// Commander sends commands to tasks. Each task has one slot: a command waits there
// until it is handled, replaced by another other than a checkpoint, or the task is
// deleted. NewCommander
// returns the only implementation, for any broker.
type Commander interface {
	// Send sends every command and returns one outcome for each, in order.
	// IDs and commands must be valid.
	Send(ctx context.Context, commands []Sending) []Sent
}

// Heard is one report of a Listener. Exactly one of its forms is set.
type Heard struct {
	// All is true if Commands lists all waiting commands: an earlier one that is not
	// listed is gone.
	All bool
	// Commands lists commands that wait, or that are gone.
	Commands []Waiting
	// Revision is the revision up to which this is complete.
	Revision broker.Revision
	// Err is set if the broker cannot be followed for now. Earlier reports stay valid,
	// and listening continues.
	Err error
}

// Waiting is a command that waits for its task's owner.
type Waiting struct {
	// ID of the task.
	ID string
	// Value is the command as stored; nil if it is gone.
	Value []byte
	// Revision is the revision of the command, zero if it is gone.
	Revision broker.Revision
}

// Listener follows the commands to all tasks with one watch. NewListener returns the
// only implementation, for any broker.
type Listener interface {
	// Listen reports the waiting commands and then every change, until ctx is done.
	// heard must return once ctx is done.
	Listen(ctx context.Context, heard func(Heard))
}

// commander is Commander and Listener over a broker.
type commander struct {
	broker    broker.Broker
	space     keys.Space
	reconcile time.Duration
}

// NewCommander returns the commander of a namespace.
func NewCommander(b broker.Broker, namespace string) (Commander, error) {
	space, err := keys.New(namespace)
	if err != nil {
		return nil, err
	}
	return &commander{broker: b, space: space}, nil
}

// NewListener returns the listener of a namespace. It lists again every reconcile
// period, in case the watch missed a change.
func NewListener(b broker.Broker, namespace string, reconcile time.Duration) (Listener, error) {
	space, err := keys.New(namespace)
	if err != nil {
		return nil, err
	}
	return &commander{broker: b, space: space, reconcile: reconcile}, nil
}

// Send implements Commander.
func (c *commander) Send(ctx context.Context, commands []Sending) []Sent {
	sent := make([]Sent, len(commands))
	values := make([][]byte, len(commands))
	var valid []int
	for i := range commands {
		if values[i], sent[i].Err = json.Marshal(commands[i].Command); sent[i].Err == nil {
			valid = append(valid, i)
		}
	}
	// A task exists by its own key or, in the older form, by its properties.
	again := c.attempt(ctx, commands, values, valid, sent, c.space.Task)
	again = c.attempt(ctx, commands, values, again, sent, c.space.Props)
	for _, i := range again {
		sent[i].Err = ErrGone
	}
	return sent
}

// attempt sends to the tasks that exist by a key, and returns the others.
func (c *commander) attempt(ctx context.Context, commands []Sending, values [][]byte, which []int, sent []Sent, exists func(string) string) (again []int) {
	txns := make([]broker.Txn, len(which))
	for k, i := range which {
		id := commands[i].ID
		txns[k] = broker.Txn{
			If:   []broker.Cond{broker.Exists(exists(id))},
			Then: []broker.Op{broker.Put(c.space.TaskCommand(id), values[i])},
			Else: []broker.Op{broker.Read(c.space.State(id))},
		}
		if commands[i].Command.Message == statemachine.Checkpoint {
			slot := c.space.TaskCommand(id)
			txns[k].If = append(txns[k].If, broker.Absent(slot))
			txns[k].Else = append(txns[k].Else, broker.Read(exists(id)), broker.Read(slot))
		}
	}
	for k, r := range c.broker.Commit(ctx, txns...) {
		i := which[k]
		switch {
		case broker.MaybeApplied(r.Err):
			sent[i] = c.lookBack(ctx, commands[i].ID, values[i], r.Err)
		case r.Err != nil:
			sent[i].Err = r.Err
		case r.OK:
			sent[i].Revision = r.Revision
		case len(r.Reads) > 1 && r.Reads[1] != nil && r.Reads[2] != nil:
			sent[i] = waitingInstead(r.Reads[2])
		default:
			sent[i].State = value(r.Reads[0])
			again = append(again, i)
		}
	}
	return again
}

// waitingInstead is what became of a checkpoint to a task for which a command waits: it
// changes nothing, so it must not displace one that does.
func waitingInstead(slot *broker.KV) Sent {
	command, err := statemachine.ParseCommand(slot.Value)
	switch {
	case err == nil && command.Message == statemachine.Checkpoint:
		return Sent{Revision: slot.Modified}
	case err != nil:
		command.Message = "unreadable"
	}
	return Sent{Err: fmt.Errorf("a checkpoint does not displace the command %q that waits: %w", command.Message, ErrSuperseded)}
}

// lookBack finds out whether a command was sent. If it is not there, it may already
// have been handled: sending it again could do the same thing twice.
func (c *commander) lookBack(ctx context.Context, id string, sent []byte, cause error) Sent {
	kv, err := c.broker.Get(ctx, c.space.TaskCommand(id))
	switch {
	case err == nil && bytes.Equal(kv.Value, sent):
		return Sent{Revision: kv.Modified}
	case err != nil && !errors.Is(err, broker.ErrNotFound):
		return Sent{Err: errors.Join(cause, err)}
	}
	return Sent{Err: fmt.Errorf("the command may have been sent and handled: %w", cause)}
}

// Listen implements Listener.
func (c *commander) Listen(ctx context.Context, heard func(Heard)) {
	source := mirror.Source{Broker: c.broker, Prefix: c.space.TaskCommands(), Reconcile: c.reconcile}
	mirror.Follow(ctx, source, func(u mirror.Update) {
		h := Heard{Err: u.Err}
		switch {
		case u.Err != nil:
		case u.Snapshot != nil:
			h.All, h.Revision = true, u.Snapshot.Revision
			for _, kv := range u.Snapshot.KVs {
				h.add(c.space, broker.Event{KV: kv})
			}
		default:
			h.Revision = u.Batch.Revision
			for _, e := range u.Batch.Events {
				h.add(c.space, e)
			}
		}
		heard(h)
	})
}

func (h *Heard) add(space keys.Space, e broker.Event) {
	p := space.Parse(e.KV.Key)
	if p.Kind != keys.TaskCommand {
		return
	}
	w := Waiting{ID: p.Name}
	if !e.Deleted {
		w.Value, w.Revision = e.KV.Value, e.KV.Modified
	}
	h.Commands = append(h.Commands, w)
}
