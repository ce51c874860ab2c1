package windlass

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/statemachine"
)

// taskCommand is a command to a task that waits for the task's owner.
type taskCommand struct {
	statemachine.Command
	revision broker.Revision
	// told is true if the handler received the command and decides what happens.
	told bool
	// err is set if the command is invalid.
	err error
	// checked is true if the command was seen in the slot while the claim was already
	// held. A command older than the claim may have been handled by the previous owner.
	checked bool
	// refused is true once it was reported that deleting it is not permitted.
	refused bool
}

// of returns the revision of a command, zero for nil.
func (o *taskCommand) of() broker.Revision {
	if o == nil {
		return 0
	}
	return o.revision
}

// heard takes the commands to tasks that the listener reports. A node sees all of them
// and applies those to tasks that it holds.
func (in *incarnation) heard(h coordinator.Heard) {
	if h.Err != nil {
		in.events.BrokerTrouble(h.Err)
		return
	}
	known := in.commands
	if h.All {
		in.commandsKnown = true
		in.commands = make(map[string]*taskCommand, len(h.Commands))
	}
	for _, w := range h.Commands {
		if w.Revision == 0 {
			delete(in.commands, w.ID)
			continue
		}
		o := known[w.ID]
		if o == nil || o.revision != w.Revision {
			o = &taskCommand{revision: w.Revision}
			o.Command, o.err = statemachine.ParseCommand(w.Value)
		}
		in.commands[w.ID] = o
		if r := in.runs[w.ID]; r != nil {
			in.applyCommand(r)
		}
	}
}

// waiting returns the command that is to be applied to a held task, nil for none.
func (in *incarnation) waiting(r *run) *taskCommand {
	o := in.commands[r.claim.id]
	if o == nil || o.revision <= r.applied || o.revision == r.command.of() || r.unreadable || in.lost || in.closing {
		return nil
	}
	return o
}

// applyCommand applies a command that was heard while its task is held. It waits for a
// state that is being stored or a task that is being given back.
func (in *incarnation) applyCommand(r *run) {
	switch r.phase {
	case phaseParked:
		in.applyToIdle(r)
	case phaseRunning, phaseStopping:
		if o := in.waiting(r); o != nil && r.cause == nil && !r.expired && in.isCurrent(r, o) {
			in.applyToRunning(r, o)
		}
	case phaseEnding, phaseSaving:
	}
}

// applyToIdle applies the command to a task that has no handler now. It returns false
// if there is no command or it changes nothing.
func (in *incarnation) applyToIdle(r *run) bool {
	for {
		o := in.waiting(r)
		if o == nil || r.departing {
			return false
		}
		if !in.isCurrent(r, o) {
			if r.phase != phaseParked {
				in.park(r) // until it is known whether the command still is
			}
			return true
		}
		r.command = o
		if in.tryOut(r) {
			return true
		}
	}
}

// tryOut carries out the command of a run that has no handler. It returns false if the
// run stays as it is.
func (in *incarnation) tryOut(r *run) bool {
	next, err := statemachine.Next(r.record.State, r.command.Message)
	if r.command.err != nil {
		err = r.command.err
	}
	idle := r.command.Message == statemachine.Run || r.command.Message == statemachine.Checkpoint
	if err != nil || idle && next == r.record.State {
		in.discard(r, err)
		return false
	}
	in.parked.remove(r)
	in.carryOut(r)
	return true
}

// carryOut carries out the command of a run, now that no handler runs.
func (in *incarnation) carryOut(r *run) {
	if o := in.commands[r.claim.id]; o != nil && o.revision > r.command.revision && o.err == nil {
		r.command = o // the last one wins
	}
	before := r.record
	r.before = &before
	if err := in.apply(r, r.command.Command); err != nil {
		in.discard(r, err)
		r.before = nil
		in.resume(r)
	}
}

// applyToRunning applies a command to a task whose handler runs. A handler that listens
// receives it; any other is stopped if the command requires that.
func (in *incarnation) applyToRunning(r *run, o *taskCommand) {
	if o.err != nil {
		r.command = o
		in.discard(r, o.err)
		return
	}
	o.told = r.claim.tell(o.Command) && r.phase == phaseRunning
	r.command = o
	switch {
	case r.phase == phaseStopping:
		return // the last one wins, once the handler has returned
	case o.Message == statemachine.Run, o.Message == statemachine.Checkpoint:
		in.discard(r, nil)
		return
	case o.told && o.Message != statemachine.Kill:
		return // it ends by itself
	}
	in.enter(r, phaseStopping)
	in.node.markStopped(r)
	r.handle.Stop(stopCause(o.Command))
}

// stopCause returns the cause with which a command stops a handler.
func stopCause(c statemachine.Command) error {
	switch c.Message {
	case statemachine.Kill:
		return ErrKilled
	case statemachine.Release:
		return ErrReleased
	}
	return fmt.Errorf("%w: %s", ErrCommanded, c.Message)
}

// isCurrent reports whether a command is known to be the one in the slot. If not, it
// starts a read.
func (in *incarnation) isCurrent(r *run, o *taskCommand) bool {
	if o.checked || o.revision > r.claim.fencing {
		return true
	}
	if !in.out.asks.Has(o) {
		in.out.asks.Put(o, asking{id: r.claim.id}, time.Time{})
	}
	return false
}

// asking is a read of a task's command slot; again is true if an earlier read was
// refused.
type asking struct {
	id    string
	again bool
}

// ask finds out whether a command is the one in the slot. If the read is refused, it is
// repeated as long as the task is held and the command is the last one heard of. If the
// command were assumed to be handled, it would be lost.
func (in *incarnation) ask(o *taskCommand, a asking) (then func()) {
	kv, err := patientGet(in.alive, in.config.Broker, in.node.space.TaskCommand(a.id))
	return func() {
		switch answered := err == nil || errors.Is(err, broker.ErrNotFound); {
		case answered || in.commands[a.id] != o:
			in.checkedOrder(a.id, o, err == nil && kv.Modified == o.revision)
		case in.runs[a.id] == nil || in.alive.Err() != nil:
		default:
			if !a.again {
				in.events.BrokerTrouble(fmt.Errorf("look for the command to task %q: %w", a.id, err))
			}
			in.out.asks.Put(o, asking{id: a.id, again: true}, time.Now().Add(retryClaim))
		}
	}
}

// checkedOrder continues the run of a task whose command slot was read. It may be
// another run than the one that started the read: that has waited for the answer as
// well.
func (in *incarnation) checkedOrder(id string, o *taskCommand, there bool) {
	o.checked = there
	r := in.runs[id]
	if r == nil {
		return
	}
	if !there {
		r.applied = max(r.applied, o.revision) // by the owner before
	}
	if r.phase == phaseParked {
		in.resume(r)
		return
	}
	in.applyCommand(r)
}

// discard deletes the command of a run that was carried out without a change of state,
// or that cannot be carried out.
func (in *incarnation) discard(r *run, err error) {
	if r.command == nil {
		return
	}
	o := r.command
	r.applied, r.command = o.revision, nil
	in.handled(r, o, err)
	e := r.claim.ending(coordinator.Discard)
	e.Command = o.revision
	in.out.discards.Put(discard{command: o, token: e.Token}, e, time.Time{})
}

// handled reports that a command was carried out, or why it was not.
func (in *incarnation) handled(r *run, o *taskCommand, err error) {
	in.out.audit.commanded(r, o, err, time.Now())
	in.events.TaskCommanded(r.claim.id, string(o.Message), err)
}

// orderDone records that the command of a run was carried out and deleted.
func (in *incarnation) orderDone(r *run) {
	if r.command != nil {
		in.handled(r, r.command, nil)
		r.record.Command = r.command.revision
		r.applied, r.command = r.command.revision, nil
	}
	r.before = nil
}

// superseded continues a run whose command is no longer the one in the slot.
func (in *incarnation) superseded(r *run) {
	r.applied, r.command = r.ending.Command, nil
	r.claim.trace.recorded("")
	switch kind := r.ending.Kind; {
	case kind == coordinator.Release:
		r.ending.Command = 0
		in.queueEnding(r)
	case r.before == nil && kind == coordinator.Save: // the handler wanted it, too
		in.save(r)
	case r.before == nil:
		in.end(r, kind)
	default:
		r.record, r.before, r.ending = *r.before, nil, nil
		if r.cause != nil {
			in.release(r)
			return
		}
		in.resume(r)
	}
}

// discard is a command that a claim has handled and that is to be deleted.
type discard struct {
	command *taskCommand
	token   broker.Revision
}

// discarded handles the results of deleting handled commands. Temporary failures are
// queued again, and so are missing permissions: they may be restored.
func (in *incarnation) discarded(handled []discard, endings []coordinator.Ending, results []coordinator.Ended) {
	for i, result := range results {
		o, err := handled[i].command, result.Err
		refused := errors.Is(err, broker.ErrPermission)
		if err == nil || errors.Is(err, coordinator.ErrFenced) || errors.Is(err, coordinator.ErrGone) {
			continue
		}
		if !broker.Temporary(err) && !o.refused {
			in.events.BrokerTrouble(fmt.Errorf("delete the command to task %q: %w", endings[i].ID, err))
		}
		if o.refused = refused; (refused || broker.Temporary(err)) && !in.closing {
			in.out.discards.Put(handled[i], endings[i], time.Time{})
			in.out.discards.Pause(time.Now().Add(retryEnd))
		}
	}
}

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
			command.Command.By = callerOf(ctx)
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

func (t TaskCommand) validate() error {
	if err := keys.CheckTaskID(t.ID); err != nil {
		return badName(err)
	}
	var wrong *statemachine.CommandError
	if err := t.Command.Validate(); errors.As(err, &wrong) {
		return badInput(wrong.Field, wrong.Value, wrong.Limit)
	}
	return nil
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

// Wait waits until a task has one of the statuses, and then returns it. What a node holds
// that is silent (TaskDetail.SilentSince) has none. If the task ends with another status,
// Wait returns a *FinishedError; if it is deleted, ErrNotFound.
func (c *Client) Wait(ctx context.Context, id string, statuses ...Status) (TaskDetail, error) {
	if len(statuses) == 0 {
		return TaskDetail{}, badInput("statuses", "", "at least one must be given")
	}
	var d TaskDetail
	what := fmt.Sprintf("wait for task %q", id)
	err := look(ctx, what, func() (done bool, err error) {
		now, err := c.Task(ctx, id)
		if err != nil {
			return false, err
		}
		d = now
		switch {
		case !d.SilentSince.IsZero(): // what its holder last said of it need not be so any more
			return false, nil
		case (Filter{Statuses: statuses}).Matches(d.TaskInfo):
			return true, nil
		case statemachine.State(d.Status).Terminal():
			return false, fmt.Errorf("%s: %w", what, &FinishedError{ID: id, State: statemachine.State(d.Status)})
		}
		return false, nil
	})
	return d, err
}
