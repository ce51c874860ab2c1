package windlass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/life"
	"github.com/windlass-go/windlass/statemachine"
)

// exited decides what happens to a task whose handler returned.
func (in *incarnation) exited(x exit) {
	r := in.runs[x.id]
	if r == nil || r.claim.held.Token != x.token {
		return // cannot be: a run stays on the record until its handler has returned
	}
	if in.session.Context().Err() != nil {
		in.sessionLost() // which is why it returned, and the loop has not heard of it yet
	}
	r.handle, r.returned = nil, in.node.momentOf(x.at)
	in.timeouts.Remove(x.id)
	in.board.LoadFell()
	in.out.audit.Returned(&r.claim.held)
	// A run that was stopped because its type is paused stays here, unless it was to
	// leave as well.
	rests := errors.Is(r.cause, ErrTypePaused) && r.dequeued == nil && !r.departing && in.stage != stageClosing
	if rests {
		r.cause = nil
	}
	said, hasSaid := messageOf(x.err)
	killed := r.command != nil && r.command.Message == statemachine.Kill
	switch unread := r.claim.stopListening(); {
	case killed:
	case r.command != nil && r.command.told && (unread.Message != "" || !hasSaid):
		r.command = nil // what it returned is no answer to that: it stays where it is, for when this is stored
	case unread.Message == statemachine.Run && (said.Message == statemachine.Pause || said.Message == statemachine.Sleep):
		said = unread // it came later than what the handler acts upon
	}
	in.judge(r, x, said, life.Return{
		ClaimLost: errors.Is(r.cause, ErrLost), SessionLost: in.stage == stageLost, Deleted: errors.Is(r.cause, ErrDeleted),
		Killed: killed, Commanded: r.command != nil && !r.command.told, Rests: rests, Expired: r.expired,
		Stopped: r.cause != nil, HasSaid: hasSaid, Said: said.Message,
	}.Verdict())
	if in.runs[x.id] == r {
		in.node.publishRun(r) // for the fence, the handler is no longer out
	}
}

// judge carries out the verdict on a run whose handler has returned.
func (in *incarnation) judge(r *run, x exit, said statemachine.Command, v life.Verdict) {
	switch v {
	case life.Drop:
		in.drop(r, r.cause)
	case life.DropLost:
		in.drop(r, context.Cause(in.session.Context()))
	case life.Abandon:
		in.abandon(r)
	case life.Complete:
		in.do(r, r.record.End(statemachine.Completed))
	case life.CarryOut:
		r.keepResult()
		in.carryOut(r)
	case life.Rest:
		r.keepResult()
		in.rest(r)
	case life.Heed:
		in.conclude(r, said)
	case life.TimedOut:
		err := fmt.Errorf("%w: after %v", ErrTimeout, time.Duration(r.claim.kind.Spec.Timeout))
		if !errors.Is(x.err, ErrRelease) {
			err = fmt.Errorf("%w: %w", err, x.err)
		}
		in.fault(r, err)
	case life.Release:
		in.giveBack(r)
	case life.Fail:
		in.fault(r, x.err)
	}
}

// outcomes are how runs end by the state of their tasks.
var outcomes = map[statemachine.State]events.Outcome{
	statemachine.Completed: events.Completed, statemachine.Failed: events.Failed, statemachine.Killed: events.Killed,
	statemachine.Sleeping: events.Sleeping, statemachine.Paused: events.Paused,
}

// do carries out what has become of a run's record.
func (in *incarnation) do(r *run, d life.Deed) {
	switch d {
	case life.Continue:
		in.unchanged(r)
	case life.Save:
		in.save(r)
	case life.Yield:
		in.giveBack(r)
	case life.End:
		if r.record.State == statemachine.Completed {
			r.record.Result = r.claim.takeResult()
		}
		r.outcome = outcomes[r.record.State]
		in.end(r, coordinator.Done)
	}
}

// keepResult records the result that the handler has set; if it set none, the last one
// stays.
func (r *run) keepResult() {
	if result := r.claim.takeResult(); result != nil {
		r.record.Result = result
	}
}

// conclude carries out the message that a handler returned.
func (in *incarnation) conclude(r *run, c statemachine.Command) {
	r.keepResult()
	err := c.Validate()
	switch {
	case err != nil:
		in.fault(r, fmt.Errorf("the handler returned an invalid message: %w", err))
	case c.Message == statemachine.Error:
		in.fault(r, errors.New(c.Error))
	case c.Message == statemachine.Release, r.cause != nil && life.ChangesNothing(c.Message):
		if r.dequeued != nil { // who dequeues says how often
			in.release(r)
		} else {
			in.giveBack(r)
		}
	default:
		if earliest := time.Now().Add(restartPause); c.Message == statemachine.Sleep && c.Until.Before(earliest) {
			c = statemachine.SleepUntil(earliest)
		}
		if err := in.apply(r, c); err != nil {
			in.fault(r, fmt.Errorf("the handler returned a message that cannot be: %w", err))
		}
	}
}

// giveBack releases a task whose handler has returned. Others may have it first, so that
// no task goes round and round at full speed; one that was changed comes back at once.
func (in *incarnation) giveBack(r *run) {
	if !errors.Is(r.cause, ErrUpdated) {
		in.board.Hold(r.claim.held.ID, time.Now())
	}
	in.release(r)
}

// apply changes the recorded state by a message and stores it; the change takes effect
// then. An unchanged state is not stored.
func (in *incarnation) apply(r *run, c statemachine.Command) error {
	deed, err := r.record.Apply(c)
	switch {
	case err != nil:
		return err
	case deed == life.Err:
		in.fault(r, errors.New(c.Error))
	default:
		in.do(r, deed)
	}
	return nil
}

// restartPause prevents a handler that returns at once, to be run again, from looping
// at full speed.
const restartPause = 100 * time.Millisecond

// unchanged continues a run whose state stays as it is.
func (in *incarnation) unchanged(r *run) {
	in.discard(r, nil)
	r.before = nil
	if r.cause != nil {
		in.release(r)
		return
	}
	in.resume(r)
}

// fault records an error of the handler and what follows from it.
func (in *incarnation) fault(r *run, err error) {
	r.record.AddError(err.Error(), r.claim.kind.Spec.RetryPolicy(), time.Now())
	r.keepResult()
	if IsPermanent(err) {
		in.events.Errored(r.claim.held.ID, err, time.Time{})
		in.do(r, r.record.End(statemachine.Failed))
		return
	}
	r.record.State = statemachine.Fault
	in.decideFault(r, err)
}

// decideFault asks the error handler what to do about a task in fault. err is nil if another
// node was to ask.
func (in *incarnation) decideFault(r *run, err error) {
	now := time.Now()
	decision, problem := in.config.decideFault(Fault{
		ID: r.claim.held.ID, Spec: r.claim.Spec(), Task: r.claim.task, Err: err,
		Errors: r.record.Errors, Failures: r.record.Failures, Now: now,
	}, func() statemachine.Command {
		return r.claim.kind.Spec.RetryPolicy().HandleErrors(r.record.Errors, r.record.Failures, now, rand.Float64())
	})
	if problem != nil {
		in.events.Errored(r.claim.held.ID, problem, time.Time{})
	}
	deed := r.record.Resolve(decision, now)
	cause := errors.New(cmp.Or(statemachine.LastError(r.record.Errors), "unknown error"))
	switch r.record.State {
	case statemachine.Failed:
		in.events.Errored(r.claim.held.ID, cause, time.Time{})
	case statemachine.Sleeping:
		in.events.Errored(r.claim.held.ID, cause, *r.record.Until)
	}
	r.faulted = deed == life.Save
	in.do(r, deed)
}

// timeoutStep tells the handlers whose time is over to stop.
func (in *incarnation) timeoutStep(now time.Time) {
	for _, id := range in.timeouts.PopDue(now) {
		if r := in.runs[id]; r != nil && r.phase.On(life.Expire) == life.StopHandler {
			r.expired = true
			in.halt(r, ErrTimeout) // it is no cause to give the task up
		}
	}
}
