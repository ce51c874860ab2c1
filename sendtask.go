package windlass

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/edit"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/statemachine"
)

// TaskCommand is a command to a task.
type TaskCommand struct {
	// ID of the task.
	ID string
	// Command to it.
	Command statemachine.Command
}

// SentCommand is a command that was sent.
type SentCommand struct {
	TaskCommand
	// Revision distinguishes it from the commands sent to the task before and after.
	Revision int64
	// Done is true if it was carried out at once, because nobody held the task.
	Done bool
}

// The ways in which a command ends without being carried out; match with errors.Is.
var (
	// ErrSuperseded: another command was sent to the task before this one was carried
	// out, or before it was seen to be carried out.
	ErrSuperseded = coordinator.ErrSuperseded
	// ErrDiscarded: the task's state does not accept the command, or its handler
	// received it and decided otherwise.
	ErrDiscarded = errors.New("the command was discarded")
)

// SendTask sends a command to a task. The holder of the task carries it out. If nobody holds
// it, SendTask carries out a kill or a pause itself, whatever the task waits for; any other
// command waits for the next holder, however long that takes. Each task has one slot for
// commands: the last command wins, except that a checkpoint does not displace another
// command and fails with ErrSuperseded. SendTask returns ErrNotFound if the task
// does not exist, and a *FinishedError if it has ended.
func (c *Client) SendTask(ctx context.Context, id string, command statemachine.Command) (SentCommand, error) {
	sent, errs := c.SendTasks(ctx, []TaskCommand{{ID: id, Command: command}})
	return sent[0], errs[0]
}

// SendTasks sends many commands, each as SendTask does. It returns the sent commands
// and an error for each, in order. It is not all or nothing.
func (c *Client) SendTasks(ctx context.Context, commands []TaskCommand) ([]SentCommand, []error) {
	sent, errs := make([]SentCommand, len(commands)), make([]error, len(commands))
	var open []int
	for i, command := range commands {
		if command.Command.By == "" {
			command.Command.By = Caller(ctx)
		}
		sent[i].TaskCommand = command
		if errs[i] = command.validate(); errs[i] == nil {
			open = append(open, i)
		}
	}
	if len(open) == 0 {
		return sent, errs
	}
	commander, err := coordinator.NewCommander(c.broker, c.space.Root())
	if err == nil {
		err = c.checkLayout(ctx)
	}
	if err != nil {
		for _, i := range open {
			errs[i] = fmt.Errorf("command to task %q: %w", commands[i].ID, err)
		}
		return sent, errs
	}
	sendings := make([]coordinator.Sending, len(open))
	for k, i := range open {
		sendings[k] = coordinator.Sending{ID: sent[i].ID, Command: sent[i].Command}
	}
	for k, s := range commander.Send(ctx, sendings) {
		i := open[k]
		sent[i].Revision = int64(s.Revision)
		if s.Err != nil {
			errs[i] = notSent(commands[i].ID, s)
		}
	}
	c.carryOut(ctx, sent)
	return sent, errs
}

// carryOut carries out the kills and pauses among some commands whose tasks nobody holds, and sets Done of them.
func (c *Client) carryOut(ctx context.Context, sent []SentCommand) {
	commands := make([]edit.Command, len(sent))
	for i, s := range sent {
		commands[i] = edit.Command{ID: s.ID, Command: s.Command, Revision: broker.Revision(s.Revision)}
	}
	edit.CarryOut(ctx, c.broker, c.space, &editing, commands)
	for i := range sent {
		sent[i].Done = commands[i].Done
	}
}

func (t TaskCommand) validate() error {
	if err := keys.CheckTaskID(t.ID); err != nil {
		return err
	}
	return t.Command.Validate()
}

func notSent(id string, s coordinator.Sent) error {
	if !errors.Is(s.Err, coordinator.ErrGone) {
		return fmt.Errorf("command to task %q: %w", id, s.Err)
	}
	if record, err := statemachine.Parse(s.State); err == nil && record.State.Terminal() {
		return &FinishedError{ID: id, State: record.State}
	}
	return fmt.Errorf("command to task %q: %w", id, ErrNotFound)
}

// Limits of the pause between two reads of one task's state.
const (
	lookMin = 20 * time.Millisecond
	lookMax = time.Second
)

// look calls see with growing pauses until it is done or fails for good. what names
// what is waited for.
func look(ctx context.Context, what string, see func() (done bool, err error)) error {
	for wait := lookMin; ; wait = min(2*wait, lookMax) {
		if done, err := see(); (done || err != nil) && !broker.Temporary(err) {
			return err
		}
		if !pause.For(ctx, wait) {
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		}
	}
}

// AwaitCommand waits until a command was carried out, and then returns the task. It
// fails with ErrSuperseded or ErrDiscarded if the command was not carried out, with
// ErrNotFound if the task is gone, and when ctx is done.
func (c *Client) AwaitCommand(ctx context.Context, sent SentCommand) (TaskDetail, error) {
	var d TaskDetail
	what := fmt.Sprintf("command %s to task %q", sent.Command.Message, sent.ID)
	err := look(ctx, what, func() (done bool, err error) {
		kv, err := c.broker.Get(ctx, c.space.TaskCommand(sent.ID))
		switch {
		case errors.Is(err, broker.ErrNotFound):
			d, err = c.carriedOut(ctx, sent)
			return true, err
		case err != nil:
			return false, fmt.Errorf("%s: %w", what, err)
		case int64(kv.Modified) != sent.Revision:
			return false, fmt.Errorf("%s: %w", what, ErrSuperseded)
		}
		c.carryOut(ctx, []SentCommand{sent}) // its holder may have gone
		return false, nil
	})
	return d, err
}

// carriedOut reads the outcome of a command that is gone.
func (c *Client) carriedOut(ctx context.Context, sent SentCommand) (TaskDetail, error) {
	d, err := c.Task(ctx, sent.ID)
	if err != nil {
		return TaskDetail{}, err
	}
	state := statemachine.Runnable
	if d.State != nil {
		switch {
		case d.State.Command == sent.Revision:
			return d, nil
		case d.State.Command > sent.Revision:
			return d, fmt.Errorf("command to task %q: %w", sent.ID, ErrSuperseded)
		}
		state = d.State.State
	}
	switch next, err := statemachine.Next(state, sent.Command.Message); {
	case err != nil:
		return d, fmt.Errorf("command to task %q: %w: %w", sent.ID, ErrDiscarded, err)
	case next != state:
		return d, fmt.Errorf("command to task %q: %w: it is %s: its handler decided so", sent.ID, ErrDiscarded, state)
	}
	return d, nil // it changed nothing
}
