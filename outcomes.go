package windlass

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/outbox"
	"github.com/windlass-go/windlass/statemachine"
)

// exited decides what happens to a task whose handler returned.
func (in *incarnation) exited(x exit) {
	r := in.runs[x.id]
	if r == nil || r.claim.token() != x.token {
		return // cannot be: a run stays on the record until its handler has returned
	}
	if in.session.Context().Err() != nil {
		in.sessionLost() // which is why it returned, and the loop has not heard of it yet
	}
	r.handle, r.returned = nil, in.node.momentOf(x.at)
	in.timeouts.Remove(x.id)
	in.board.LoadFell()
	in.out.audit.returned(r)
	// A run that was stopped because its type is paused stays here, unless it was to
	// leave as well.
	rests := errors.Is(r.cause, ErrTypePaused) && r.dequeued == nil && !r.departing && !in.closing
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
	switch {
	case errors.Is(r.cause, ErrLost) && !in.lost, errors.Is(r.cause, ErrDeleted) && in.lost:
		in.drop(r, r.cause)
	case errors.Is(r.cause, ErrDeleted):
		in.abandon(r)
	case said.Message == statemachine.Complete && !killed:
		in.complete(r)
	case in.lost:
		in.drop(r, context.Cause(in.session.Context()))
	case killed, r.command != nil && !r.command.told:
		r.keepResult()
		in.carryOut(r)
	case rests && !r.expired && (!hasSaid || changesNothing(said.Message)):
		r.keepResult()
		in.rest(r)
	case hasSaid && !(r.expired && said.Message == statemachine.Release):
		in.conclude(r, said)
	case r.expired:
		err := fmt.Errorf("%w: after %v", ErrTimeout, time.Duration(r.claim.kind.Spec.Timeout))
		if !errors.Is(x.err, ErrRelease) {
			err = fmt.Errorf("%w: %w", err, x.err)
		}
		in.fault(r, err)
	case r.cause != nil:
		in.giveBack(r)
	default:
		in.fault(r, x.err)
	}
	if in.runs[x.id] == r {
		in.node.publishRun(r) // for the fence, the handler is no longer out
	}
}

func (in *incarnation) complete(r *run) {
	r.outcome = OutcomeCompleted
	r.record.State, r.record.Until = statemachine.Completed, nil
	r.record.Result = r.claim.takeResult()
	in.end(r, coordinator.Done)
}

// kill ends a task for good.
func (in *incarnation) kill(r *run) {
	r.outcome = OutcomeKilled
	r.record.State, r.record.Until = statemachine.Killed, nil
	in.end(r, coordinator.Done)
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
	case c.Message == statemachine.Release, r.cause != nil && changesNothing(c.Message):
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
		in.board.Hold(r.claim.id, time.Now())
	}
	in.release(r)
}

// apply changes the recorded state by a message and stores it; the change takes effect
// then. An unchanged state is not stored.
func (in *incarnation) apply(r *run, c statemachine.Command) error {
	next, err := statemachine.Next(r.record.State, c.Message)
	if err != nil {
		return err
	}
	switch c.Message {
	case statemachine.Release:
		in.giveBack(r)
		return nil
	case statemachine.Complete:
		in.complete(r)
		return nil
	case statemachine.Error:
		in.fault(r, errors.New(c.Error))
		return nil
	case statemachine.Kill:
		in.kill(r)
		return nil
	case statemachine.Checkpoint:
		c.Until = r.record.Until // keeps a sleeping task's wake time
	}
	if next == r.record.State && sameTime(c.Until, r.record.Until) && !(c.Message == statemachine.Pause && r.record.TypePaused) {
		in.unchanged(r)
		return nil
	}
	r.record.State, r.record.Until, r.record.TypePaused = next, c.Until, false
	in.save(r)
	return nil
}

func sameTime(a, b *time.Time) bool {
	return a == b || a != nil && b != nil && a.Equal(*b)
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
	now := time.Now()
	r.record.Failures = r.retryPolicy().CountFailure(r.record.Errors, r.record.Failures, now)
	r.record.Errors = statemachine.AddError(r.record.Errors, now.UTC(), err.Error())
	r.keepResult()
	if isPermanent(err) {
		in.fail(r, err)
		return
	}
	r.record.State = statemachine.Fault
	in.decideFault(r, err)
}

// retryPolicy returns the retry policy of the task, for the default error handler.
func (r *run) retryPolicy() statemachine.RetryPolicy {
	return r.claim.kind.Spec.retryPolicy()
}

// decideFault asks the error handler what to do about a task in fault. The text with
// which it fails the task becomes the last of the task's errors. err is nil if another
// node was to ask.
func (in *incarnation) decideFault(r *run, err error) {
	now := time.Now()
	decision, problem := in.config.decideFault(Fault{
		ID: r.claim.id, Spec: r.claim.Spec(), Task: r.claim.task, Err: err,
		Errors: r.record.Errors, Failures: r.record.Failures, Now: now,
	}, func() statemachine.Command {
		return r.retryPolicy().HandleErrors(r.record.Errors, r.record.Failures, now, rand.Float64())
	})
	if problem != nil {
		in.events.Errored(r.claim.id, problem, time.Time{})
	}
	last := lastError(r.record.Errors)
	if text := decision.Error; text != "" && text != last {
		r.record.Errors = statemachine.AddError(r.record.Errors, now.UTC(), text)
		last = text
	}
	cause := errors.New(cmp.Or(last, "unknown error"))
	next, err := statemachine.Next(statemachine.Fault, decision.Message)
	switch {
	case err != nil || next == statemachine.Failed:
		in.fail(r, cause)
		return
	case next == statemachine.Killed:
		in.kill(r)
		return
	case next == statemachine.Sleeping && r.record.Until != nil && r.record.Until.After(now):
		decision.Until = r.record.Until // an error while it slept changes nothing about that
	}
	if r.record.State, r.record.Until = next, decision.Until; next == statemachine.Sleeping {
		in.events.Errored(r.claim.ID(), cause, *decision.Until)
	}
	r.faulted = true
	in.save(r)
}

// decideFault asks the error handler of the task's type. If that panics or decides what
// it must not, decideFault returns the problem and the default decision.
func (c Config) decideFault(f Fault, byDefault func() statemachine.Command) (decision statemachine.Command, problem error) {
	handler := c.errorHandler(f.Spec.Type)
	if handler == nil {
		return byDefault(), nil
	}
	defer func() {
		if v := recover(); v != nil {
			decision, problem = byDefault(), fmt.Errorf("the error handler panicked: %v", v)
		}
	}()
	decision = handler(f)
	err := decision.Validate()
	if _, refused := statemachine.Next(statemachine.Fault, decision.Message); err == nil {
		err = refused
	}
	if err != nil {
		return byDefault(), fmt.Errorf("the error handler decided what cannot be: %w", err)
	}
	return decision, nil
}

func (in *incarnation) fail(r *run, err error) {
	in.events.Errored(r.claim.ID(), err, time.Time{})
	r.outcome = OutcomeFailed
	r.record.State, r.record.Until = statemachine.Failed, nil
	in.end(r, coordinator.Done)
}

// timeoutStep tells the handlers whose time is over to stop.
func (in *incarnation) timeoutStep(now time.Time) {
	for _, id := range in.timeouts.PopDue(now) {
		if r := in.runs[id]; r != nil && r.phase == phaseRunning {
			r.expired = true
			in.enter(r, phaseStopping)
			in.node.markStopped(r)
			r.handle.Stop(ErrTimeout)
		}
	}
}

// outgoing has everything that a node has to write to the broker or to ask it: a lane
// for each sort.
type outgoing struct {
	claims outbox.Lane[string, coordinator.Wanted]
	// adopts ask about claims that the copy shows as this node's and that have no run.
	// Nothing else is begun with those meanwhile, so that an answer is never older than
	// what is already known.
	adopts outbox.Lane[string, coordinator.Wanted]
	// asks find out whether a command to a task still exists.
	asks outbox.Lane[*taskCommand, asking]
	// changes read tasks again that were changed while their handlers run.
	changes outbox.Lane[string, struct{}]
	endings outbox.Lane[string, coordinator.Ending]
	// discards delete commands to tasks that changed nothing.
	discards outbox.Lane[discard, coordinator.Ending]
	// checkpoints are keyed by the channels on which their outcomes are awaited.
	checkpoints outbox.Lane[chan<- coordinator.Ended, coordinator.Ending]
	audit       journal
	// hints note where tasks are going whose handlers take long to stop.
	hints outbox.Lane[string, broker.Txn]
	// commands delete commands to this node that were carried out.
	commands outbox.Lane[string, broker.Txn]
	// deaths records the deaths of other nodes.
	deaths outbox.Lane[string, broker.Txn]
	// refuted brings back tasks that were set aside wrongly.
	refuted outbox.Lane[string, deaths.Refuted]
	// info publishes the node's registration as it is when the call is sent. There is
	// one call at a time, on the condition that the last one has written published.
	// Otherwise an older one that is applied late would hide a newer one.
	info      outbox.Lane[struct{}, struct{}]
	published broker.Revision
}

// newOutgoing returns the empty lanes of a node, except for the audit records that are left of
// an earlier session.
func newOutgoing(node, incarnation string, left []coordinator.AuditRecord) *outgoing {
	o := &outgoing{audit: journal{node: node, incarnation: incarnation}}
	o.claims.BatchMax, o.claims.CallsMax = claimBatchMax, callsInFlightMax
	o.adopts.BatchMax, o.adopts.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.asks.BatchMax, o.asks.CallsMax = 1, outbox.Unbounded
	o.changes.BatchMax, o.changes.CallsMax = claimBatchMax, callsInFlightMax
	o.endings.BatchMax, o.endings.CallsMax = claimBatchMax, callsInFlightMax
	o.discards.BatchMax, o.discards.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.checkpoints.BatchMax, o.checkpoints.CallsMax = claimBatchMax, callsInFlightMax
	o.audit.BatchMax, o.audit.CallsMax = claimBatchMax, 1
	o.hints.BatchMax, o.hints.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.commands.BatchMax, o.commands.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.deaths.BatchMax, o.deaths.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.refuted.BatchMax, o.refuted.CallsMax = 1, 1
	o.info.BatchMax, o.info.CallsMax = 1, 1
	for _, n := range left {
		o.audit.Add(n)
	}
	return o
}

// lane has the common methods of all lanes.
type lane interface {
	Wake() time.Time
	Calls() int
}

// lanes returns all lanes except the audit queue, which have rules of their own.
func (o *outgoing) lanes() [12]lane {
	return [...]lane{&o.claims, &o.adopts, &o.asks, &o.changes, &o.endings, &o.discards, &o.checkpoints, &o.hints, &o.commands, &o.deaths, &o.refuted, &o.info}
}

// publishInfo queues the publication of the node's registration.
func (o *outgoing) publishInfo() { o.info.Put(struct{}{}, struct{}{}, time.Time{}) }

// settled reports whether the node may leave: no call is in flight, and no ending
// waits. While its session is not lost, the node also writes the audit records, and publishes
// that it is leaving.
func (o *outgoing) settled(lost bool) bool {
	calls := o.audit.Calls()
	for _, l := range o.lanes() {
		calls += l.Calls()
	}
	return calls+o.endings.Len() == 0 && (lost || o.audit.Len()+o.info.Len() == 0)
}

// send sends what is due: everything that is ready goes in the next call of its lane,
// and nothing waits for a batch to fill. A node that closes sends no more questions.
// Once the session is lost, only endings and checkpoints are sent, whose outcome
// somebody waits for.
func (in *incarnation) send(ctx context.Context, now time.Time) {
	out, b := in.out, in.config.Broker
	out.claims.CallsMax = callsInFlightMax - out.adopts.Calls() // these count as calls to claim
	out.claims.Sift(now, in.isFree)
	dispatch(in, &out.claims, now, func(_ []string, wanted []coordinator.Wanted) func() {
		results := in.coord.Claim(ctx, wanted)
		return func() { in.claimed(wanted, results, false) }
	})
	if !in.lost && !in.closing {
		out.adopts.Sift(now, func(id string, _ coordinator.Wanted) bool { return in.isOrphan(id) })
		dispatch(in, &out.adopts, now, func(ids []string, wanted []coordinator.Wanted) func() {
			results := in.coord.Adopt(ctx, ids)
			return func() { in.claimed(wanted, results, true) }
		})
		dispatch(in, &out.asks, now, func(commands []*taskCommand, asked []asking) func() { return in.ask(commands[0], asked[0]) })
		dispatch(in, &out.changes, now, func(ids []string, _ []struct{}) func() { return in.readAgain(ctx, ids) })
	}
	dispatch(in, &out.endings, now, func(_ []string, endings []coordinator.Ending) func() {
		results := in.coord.End(ctx, endings)
		return func() { in.ended(endings, results) }
	})
	if !in.lost {
		dispatch(in, &out.discards, now, func(handled []discard, endings []coordinator.Ending) func() {
			results := in.coord.End(ctx, endings)
			return func() { in.discarded(handled, endings, results) }
		})
	}
	dispatch(in, &out.checkpoints, now, func(outcomes []chan<- coordinator.Ended, endings []coordinator.Ending) func() {
		for i, ended := range in.coord.End(ctx, endings) {
			outcomes[i] <- ended
		}
		return func() {}
	})
	if in.lost {
		return
	}
	if c, ok := out.audit.Take(now, in.closing, in.isBusy()); ok {
		in.markRecorded(c.Values)
		begin(in, &out.audit.Lane, c, func() func() {
			errs := in.coord.Audit(ctx, c.Values)
			return func() { in.audited(c.Values, errs) }
		})
	}
	out.hints.Sift(now, func(id string, _ broker.Txn) bool {
		r := in.runs[id]
		return r != nil && r.phase == phaseStopping && r.handTo != "" // its handler has not returned
	})
	dispatch(in, &out.hints, now, func(_ []string, txns []broker.Txn) func() {
		_ = commitWithin(ctx, b, in.session.Timing().Try, txns) // they are hints
		return func() {}
	})
	dispatch(in, &out.commands, now, func(_ []string, txns []broker.Txn) func() {
		err := commitWithin(ctx, b, in.session.Timing().TTL, txns)
		return func() {
			in.troubleIf(err, "delete commands") // they go with the session, and are not carried out again
		}
	})
	in.sendDeaths(ctx, now)
	in.sendRefuted(ctx, now)
	if c, ok := out.info.Take(now); ok {
		begin(in, &out.info, c, in.publication(ctx))
	}
}

// troubleIf reports an error of a call to the broker, if there is one.
func (in *incarnation) troubleIf(err error, what string) {
	if err != nil {
		in.events.BrokerTrouble(fmt.Errorf("%s: %w", what, err))
	}
}

// isBusy reports whether there is something more important to do than to write audit records,
// for this node or, with what is left to claim, for another one.
func (in *incarnation) isBusy() bool {
	o := in.out
	return in.board.InFlight() > 0 || in.board.Foreign() > 0 || o.claims.Calls()+o.adopts.Calls() > 0 || !o.endings.Empty()
}

// wakeToSend reports the times at which something becomes due.
func (in *incarnation) wakeToSend(now time.Time, earlier func(time.Time)) {
	earlier(in.out.endings.Wake())
	if in.lost {
		return
	}
	if earlier(in.out.audit.Due(now, in.closing, in.isBusy())); in.closing {
		return
	}
	earlier(in.fleet.NextNamed())
	for _, l := range in.out.lanes() {
		earlier(l.Wake())
	}
}

// dispatch begins the due calls of a lane. A call returns a function that handles its
// answer in the loop.
func dispatch[K comparable, V any](in *incarnation, l *outbox.Lane[K, V], now time.Time, call func([]K, []V) func()) {
	for c, ok := l.Take(now); ok; c, ok = l.Take(now) {
		begin(in, l, c, func() func() { return call(c.Keys, c.Values) })
	}
}

// begin begins one call, outside the loop.
func begin[K comparable, V any](in *incarnation, l *outbox.Lane[K, V], c outbox.Call[K, V], call func() func()) {
	in.work.Go(func() {
		then := call()
		in.arrive(func() { l.Done(c); then() })
	})
}

// commitWithin applies independent transactions within a time limit, and returns the
// error of one that failed.
func commitWithin(ctx context.Context, b broker.Broker, limit time.Duration, txns []broker.Txn) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, r := range b.Commit(ctx, txns...) {
		if r.Err != nil {
			err = r.Err
		}
	}
	return err
}

// markRecorded marks the runs whose claims are about to be recorded. It removes from
// the audit queue the records of claims that are over, or about to be.
func (in *incarnation) markRecorded(records []coordinator.AuditRecord) {
	for i := range records {
		n := &records[i]
		if r := in.runs[n.ID]; r != nil && r.claim.fencing == n.Token && r.phase != phaseEnding {
			r.recorded = true
		} else {
			n.Claimed = nil
		}
	}
}

// audited handles the results of writing audit records. Temporary failures are queued again.
func (in *incarnation) audited(records []coordinator.AuditRecord, errs []error) {
	now := time.Now()
	for i, err := range errs {
		switch {
		case err == nil:
		case !broker.Temporary(err) && !errors.Is(err, coordinator.ErrHistoryContended):
			in.events.Corrupt(in.node.space.History(records[i].ID), fmt.Errorf("write the history: %w", err))
		case !in.closing:
			in.out.audit.Again(records[i], now)
		}
	}
}
