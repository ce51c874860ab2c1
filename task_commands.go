package windlass

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/life"
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
func (c *taskCommand) of() broker.Revision {
	if c == nil {
		return 0
	}
	return c.revision
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
		c := known[w.ID]
		if c == nil || c.revision != w.Revision {
			c = &taskCommand{revision: w.Revision}
			c.Command, c.err = statemachine.ParseCommand(w.Value)
		}
		in.commands[w.ID] = c
		if r := in.runs[w.ID]; r != nil {
			in.applyCommand(r)
		}
	}
}

// waiting returns the command that is to be applied to a held task, nil for none.
func (in *incarnation) waiting(r *run) *taskCommand {
	c := in.commands[r.claim.held.ID]
	if c == nil || c.revision <= r.applied || c.revision == r.command.of() || r.unreadable || in.stage != stageWorking {
		return nil
	}
	return c
}

// applyCommand applies a command that was heard while its task is held. It waits for a
// state that is being stored or a task that is being given back.
func (in *incarnation) applyCommand(r *run) {
	switch r.phase.On(life.Command) {
	case life.Act:
		in.applyToIdle(r)
	case life.Tell:
		if c := in.waiting(r); c != nil && r.cause == nil && !r.expired && in.isCurrent(r, c) {
			in.applyToRunning(r, c)
		}
	}
}

// applyToIdle applies the command to a task that has no handler now. It returns false
// if there is no command or it changes nothing.
func (in *incarnation) applyToIdle(r *run) bool {
	for {
		c := in.waiting(r)
		if c == nil || r.departing {
			return false
		}
		if !in.isCurrent(r, c) {
			if r.phase != life.Parked {
				in.park(r) // until it is known whether the command still is
			}
			return true
		}
		r.command = c
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
	if c := in.commands[r.claim.held.ID]; c != nil && c.revision > r.command.revision && c.err == nil {
		r.command = c // the last one wins
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
func (in *incarnation) applyToRunning(r *run, c *taskCommand) {
	if c.err != nil {
		r.command = c
		in.discard(r, c.err)
		return
	}
	c.told = r.claim.tell(c.Command) && r.phase == life.Running
	r.command = c
	switch {
	case r.phase == life.Stopping:
		return // the last one wins, once the handler has returned
	case c.Message == statemachine.Run, c.Message == statemachine.Checkpoint:
		in.discard(r, nil)
		return
	case c.told && c.Message != statemachine.Kill:
		return // it ends by itself
	}
	in.halt(r, stopCause(c.Command)) // the command says what is to become of it
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
func (in *incarnation) isCurrent(r *run, c *taskCommand) bool {
	if c.checked || c.revision > r.claim.held.Token {
		return true
	}
	if !in.out.asks.Has(c) {
		in.out.asks.Put(c, asking{id: r.claim.held.ID}, time.Time{})
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
func (in *incarnation) ask(_ context.Context, commands []*taskCommand, asked []asking) (then func()) {
	c, a := commands[0], asked[0]
	kv, err := patientGet(in.alive, in.config.Broker, in.node.space.TaskCommand(a.id))
	return func() {
		switch answered := err == nil || errors.Is(err, broker.ErrNotFound); {
		case answered || in.commands[a.id] != c:
			in.commandChecked(a.id, c, err == nil && kv.Modified == c.revision)
		case in.runs[a.id] == nil || in.alive.Err() != nil:
		default:
			if !a.again {
				in.events.BrokerTrouble(fmt.Errorf("look for the command to task %q: %w", a.id, err))
			}
			in.out.asks.Put(c, asking{id: a.id, again: true}, time.Now().Add(retryClaim))
		}
	}
}

// commandChecked continues the run of a task whose command slot was read. It may be
// another run than the one that started the read: that has waited for the answer as
// well.
func (in *incarnation) commandChecked(id string, c *taskCommand, there bool) {
	c.checked = there
	r := in.runs[id]
	if r == nil {
		return
	}
	if !there {
		r.applied = max(r.applied, c.revision) // by the owner before
	}
	if r.phase == life.Parked {
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
	c := r.command
	r.applied, r.command = c.revision, nil
	in.handled(r, c, err)
	e := r.claim.held.Ending(coordinator.Discard)
	e.Command = c.revision
	in.out.discards.Put(discard{command: c, token: e.Token}, e, time.Time{})
}

// handled reports that a command was carried out, or why it was not.
func (in *incarnation) handled(r *run, c *taskCommand, err error) {
	in.out.audit.Commanded(&r.claim.held, c.Command, err, time.Now())
	in.events.TaskCommanded(r.claim.held.ID, string(c.Message), err)
}

// commandDone records that the command of a run was carried out and deleted.
func (in *incarnation) commandDone(r *run) {
	if r.command != nil {
		in.handled(r, r.command, nil)
		r.record.Command = int64(r.command.revision)
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
		c, err := handled[i].command, result.Err
		refused := errors.Is(err, broker.ErrPermission)
		if err == nil || errors.Is(err, coordinator.ErrFenced) || errors.Is(err, coordinator.ErrGone) {
			continue
		}
		if !broker.Temporary(err) && !c.refused {
			in.events.BrokerTrouble(fmt.Errorf("delete the command to task %q: %w", endings[i].ID, err))
		}
		if c.refused = refused; (refused || broker.Temporary(err)) && in.stage != stageClosing {
			in.out.discards.Put(handled[i], endings[i], time.Time{})
			in.out.discards.Pause(time.Now().Add(retryEnd))
		}
	}
}
