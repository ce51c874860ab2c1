package windlass

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/journal"
	"github.com/windlass-go/windlass/internal/life"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/runner"
	"github.com/windlass-go/windlass/placement"
	"github.com/windlass-go/windlass/statemachine"
)

// labelTask and labelType are the labels of the goroutines of a handler, in profiles.
const (
	labelTask = "windlass_task"
	labelType = "windlass_type"
)

// run is a claim that this node holds.
type run struct {
	claim  *Claim
	record life.Record
	// phase is set by enter only.
	phase life.Phase
	// counted is true if it counts as this node's load.
	counted bool
	// active is true if it is counted as one whose handler has not returned.
	active bool
	// recorded is true if the record of its claim may have been written.
	recorded bool
	// dequeued is set while the task is with a caller of Dequeue.
	dequeued *Dequeued
	// faulted is true if the state that is being stored follows from an error.
	faulted bool
	// departing is true if it is queued to be given away, or has been.
	departing bool
	// moved is true if another node gave it to this one.
	moved bool
	// asleepFrom is the token of the claim under which the task was paused or put to
	// sleep, if it was so when it was claimed; zero otherwise.
	asleepFrom broker.Revision
	// wakes is its place in the queue of runs that wait for a time, zero if it is not
	// in it.
	wakes int32
	// handTo is the node that it is to be released for, empty for any node.
	handTo string
	// handle is set while the handler has not returned.
	handle *runner.Run
	// returned is when the handler has returned, zero if none was called.
	returned moment
	// since is when the recorded state was entered.
	since moment
	// cause is why the claim is to be given up.
	cause error
	// command is the command that is being carried out, nil for none; applied is the
	// revision of the last one that was.
	command *taskCommand
	applied broker.Revision
	// before is the record before a change by a command that is not stored yet; nil
	// otherwise.
	before *life.Record
	// expired is true if the handler was told to stop because its time was over;
	// unreadable is true if the stored state must not be touched.
	expired, unreadable bool
	// stateRevision is the revision of the stored state, zero for none.
	stateRevision broker.Revision
	// ending is the ending that is being stored, and outcome what it means.
	ending  *coordinator.Ending
	outcome events.Outcome
	// published is the part of a run that is visible outside the loop. Only the loop
	// writes it, under the node's mu.
	published published
}

// published is the part of a run that is visible outside the loop.
type published struct {
	// started is when the handler was started, and stopped when it was told to stop;
	// zero if that has not happened.
	started, stopped moment
	// since is when the state was entered.
	since  moment
	state  stateCode
	parked bool
	// handle is set while the loop has not heard that the handler has returned.
	handle *runner.Run
}

// stateCode is a state in one byte.
type stateCode uint8

var codedStates = []statemachine.State{
	"", statemachine.Runnable, statemachine.Sleeping, statemachine.Paused, statemachine.Fault,
	statemachine.Completed, statemachine.Failed, statemachine.Killed,
}

func codeOf(s statemachine.State) stateCode { return stateCode(max(slices.Index(codedStates, s), 0)) }

// moment is a time in as few bytes as possible, because a node keeps several for every
// task that it holds: nanoseconds since the node was made, by a clock that nobody sets,
// plus one; zero for none.
type moment int64

func (n *Node) momentOf(t time.Time) moment { return moment(t.Sub(n.startedAt)) + 1 }

func (n *Node) timeOf(m moment) time.Time {
	if m == 0 {
		return time.Time{}
	}
	return n.startedAt.Add(time.Duration(m - 1))
}

// class returns the task's class for the planner.
func (r *run) class() *placement.Class { return r.claim.kind.Class }

// enter changes the phase of a run, and updates the load of this node.
func (in *incarnation) enter(r *run, p life.Phase) {
	r.phase = p
	in.countRun(r)
}

// countRun counts a run as load of this node, unless it leaves, and among those of its type whose handlers have not
// returned: one that sleeps or is paused uses up no concurrency.
func (in *incarnation) countRun(r *run) {
	held := in.runs[r.claim.ID()] == r
	counts := held && !r.leaving() && !in.config.pulls(r.class().Type)
	switch {
	case counts == r.counted:
	case counts:
		in.fleet.Hold(in.config.Name, r.class(), 1)
	default:
		in.fleet.Hold(in.config.Name, r.class(), -1)
	}
	active := held && (r.phase == life.Running || r.phase == life.Stopping)
	switch {
	case active == r.active:
	case active:
		in.fleet.Active(r.class().Type, 1)
	default:
		in.fleet.Active(r.class().Type, -1)
		in.board.RoomChanged()
	}
	r.counted, r.active = counts, active
}

// exit is a handler that returned.
type exit struct {
	id    string
	token broker.Revision
	err   error
	// at is when the handler returned.
	at time.Time
}

// begin takes over a granted claim: it runs it, parks it, or gives it back.
func (in *incarnation) begin(g coordinator.Granted, p *prospect) {
	delete(in.endedByUs, g.ID)
	claim := &Claim{
		task: p.task, held: journal.Claim{Ref: g.Ref, At: time.Now(), Reason: p.reason}, read: g.Token, props: g.Props,
		kind: in.kinds.Of(g.Spec), origin: originOf(g.Spec), in: in,
	}
	r := &run{claim: claim, stateRevision: g.StateRevision, moved: p.cause == events.Moved}
	in.runs[g.ID] = r
	in.board.Lag.Granted(g.Token, in.tasks.Revision(), claim.held.At)
	in.claims ^= claim.sum()
	in.countRun(r)
	if in.stage == stageLost {
		in.forget(g.ID)
		return
	}
	if claim.kind.Err != nil {
		in.events.Corrupt(in.node.space.Task(g.ID), claim.kind.Err)
	}
	in.reportGrant(claim, p)
	in.out.audit.Granted(&claim.held, r.stateRevision == 0, claim.origin.detail(p.reason, r.stateRevision == 0), append(in.deaths.Ends(g.ID), p.ended))
	if in.isDeleted(r) {
		in.abandon(r)
		return
	}
	if claim.kind.Err != nil || claim.task == nil || !in.config.runs(r.class().Type) || p.adopted && r.waited() || g.Blocked ||
		in.frozenOrLeaving() || !in.session.MayStart() || in.node.isLeftBehind(g.ID) {
		in.release(r)
		return
	}
	record, err := statemachine.Parse(g.State)
	if err != nil {
		// Parked for good: visible, and untouched until someone mends it.
		in.events.Corrupt(in.node.space.State(g.ID), err)
		r.unreadable = true
		in.park(r)
		return
	}
	r.record = life.RecordOf(record)
	if r.since = in.node.momentOf(claim.held.At); record.ChangedAt != nil {
		r.since = in.node.momentOf(*record.ChangedAt)
	}
	if r.record.State == statemachine.Sleeping || r.record.State == statemachine.Paused {
		r.asleepFrom = broker.Revision(record.Token)
		in.deaths.Slept(g.ID)
	}
	if p.skipped != "" && !r.record.State.Terminal() {
		in.skip(r, p.skipped)
		return
	}
	in.resume(r)
}

// waited reports whether a task has others to wait for. A claim on such a task is valid
// only for its purpose: to run the task, or to end it.
func (r *run) waited() bool {
	return len(depend.Blockers(r.claim.held.ID, r.claim.kind.Spec.Needs)) > 0
}

// skip ends a task because a task that it waits for has failed.
func (in *incarnation) skip(r *run, failed string) {
	r.record.Errors = statemachine.AddError(r.record.Errors, time.Now().UTC(),
		fmt.Sprintf("skipped: task %q, which it waits for, failed or was killed", failed))
	in.do(r, r.record.End(statemachine.Killed))
}

// resume continues a claim in the recorded state, unless a command says otherwise.
func (in *incarnation) resume(r *run) {
	if !r.record.State.Terminal() && in.applyToIdle(r) {
		return
	}
	next := r.record.Next(time.Now(), in.paused[r.class().Type])
	if next != life.Remove && in.isOutdated(r) {
		r.cause = ErrUpdated
		in.release(r)
		return
	}
	switch next {
	case life.Remove:
		r.outcome = events.Dropped
		in.end(r, coordinator.Done)
	case life.Wait:
		in.park(r)
		in.parked.set(r, *r.record.Until)
	case life.Wake:
		in.awake(r)
	case life.Stay:
		in.park(r)
	case life.Decide:
		in.decideFault(r, nil)
	case life.Start:
		if r.published.started != 0 && time.Since(in.node.timeOf(r.published.started)) < restartPause {
			in.park(r)
			in.parked.set(r, time.Now().Add(restartPause))
			return
		}
		in.start(r)
	}
}

// start runs the handler, unless too little of the session is left.
func (in *incarnation) start(r *run) {
	if !in.session.MayStart() {
		in.release(r)
		return
	}
	if in.paused[r.class().Type] {
		in.rest(r)
		return
	}
	if in.blame(r) {
		return
	}
	handlerOf := in.handlerFor(r)
	if handlerOf == nil {
		in.release(r)
		return
	}
	id, token := r.claim.ID(), r.claim.held.Token
	in.enter(r, life.Running)
	r.expired = false
	in.parked.remove(r)
	r.claim.stopListening() // an earlier run has listened, and this one does not yet
	if timeout := time.Duration(r.claim.kind.Spec.Timeout); timeout > 0 {
		in.timeouts.Set(id, time.Now().Add(timeout))
	}
	in.events.Claimed(id, int64(token))
	task := r.claim.task
	labels := pprof.Labels(labelTask, id, labelType, r.class().Type)
	run := func(ctx context.Context) error {
		ctx = pprof.WithLabels(ctx, labels)
		pprof.SetGoroutineLabels(ctx) // also of the goroutines that it starts
		err := handlerOf(task).Run(ctx, r.claim)
		if err == nil && ctx.Err() != nil {
			return ErrRelease // it has stopped, as it was told
		}
		return err
	}
	if in.config.Tracer != nil {
		run = r.claim.traced(run)
	}
	in.node.mu.Lock() // nobody may find the handler running and not know of it
	defer in.node.mu.Unlock()
	r.published.started, r.published.stopped = in.node.momentOf(time.Now()), 0
	r.handle = in.node.handlers.Go(in.session.Context(), run, func(err error) {
		x := exit{id: id, token: token, err: err, at: time.Now()}
		if !in.arrive(func() { in.exited(x) }) {
			in.node.cameBack(id)
		}
	})
	in.node.showRun(r)
}

// stopRun tells a run to stop, for a cause. A parked run is given back at once.
func (in *incarnation) stopRun(id string, cause error) {
	r := in.runs[id]
	if r == nil {
		return
	}
	switch reaction := r.phase.On(life.Stop); {
	case reaction == life.StopHandler:
		r.cause = cause
		in.halt(r, cause)
	case reaction == life.GiveBack:
		in.parked.remove(r)
		r.cause = cause
		in.board.LoadFell()
		if in.release(r); errors.Is(cause, ErrDeleted) {
			r.outcome = events.Dropped
		}
	case reaction == life.Note, reaction == life.NoteFirst && r.cause == nil && (r.phase != life.Ending || r.before != nil):
		r.cause = cause
	}
}

// halt tells the handler of a run to stop.
func (in *incarnation) halt(r *run, cause error) {
	in.enter(r, life.Stopping)
	in.node.markStopped(r)
	r.handle.Stop(cause)
}

// markStopped publishes that the handler of a run was told to stop.
func (n *Node) markStopped(r *run) {
	if r.published.stopped != 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	r.published.stopped = n.momentOf(time.Now())
	n.showRun(r)
}

// release gives the claim back.
func (in *incarnation) release(r *run) { in.queueRelease(r, in.keepsPlace(r)) }

// queueRelease gives the claim back, and keeps the task for this node if that is to be back.
func (in *incarnation) queueRelease(r *run, kept bool) {
	in.enter(r, life.Ending)
	if r.departing {
		in.giving.Returned(r.claim.ID(), time.Now())
	}
	r.outcome = events.Released
	if errors.Is(r.cause, ErrUpdated) && r.handTo == "" && !in.frozenOrLeaving() {
		r.handTo = in.config.Name
	}
	ending := r.claim.held.Ending(coordinator.Release)
	ending.For, ending.Unrecorded = r.handTo, !r.recorded
	if kept {
		ending.For, ending.Kept = in.config.Name, true
	}
	ending.Command = r.command.of()
	r.ending = &ending
	in.queueEnding(r)
}

// abandon gives back the claim on a task that was deleted. Only then may a task that
// was submitted under its ID be claimed: its handlers have returned.
func (in *incarnation) abandon(r *run) {
	r.handTo, r.command = "", nil // a command in the slot is another task's
	if r.cause == nil || errors.Is(r.cause, ErrUpdated) {
		r.cause = ErrDeleted
	}
	in.queueRelease(r, false) // nor is there anything to be kept
	r.outcome = events.Dropped
}

// isDeleted reports whether the mirror shows that the task of a held claim is gone, or
// has been replaced by another one.
func (in *incarnation) isDeleted(r *run) bool {
	c := r.claim
	if c.held.Created == 0 {
		return true
	}
	t := in.tasks.Remains(c.held.ID)
	return in.tasks.Revision() >= c.held.Token && (t == nil || t.CreatedAs(c.held.PropsOnly) != c.held.Created)
}

// save stores the run's record and keeps the claim.
func (in *incarnation) save(r *run) {
	in.end(r, coordinator.Save)
	in.enter(r, life.Saving)
}

// end queues the writing of a run's record.
func (in *incarnation) end(r *run, kind coordinator.Kind) {
	claimedAt := r.claim.held.At.UTC()
	record := r.record.Stored()
	record.Node, record.ClaimedAt = in.config.Name, &claimedAt
	if r.command != nil {
		record.Command = int64(r.command.revision)
	}
	ending := r.claim.held.Ending(kind)
	if err := r.claim.Spec().StoreRecord(&ending, record, r.claim.props); err != nil { // only a result that is not JSON could do this, and SetResult made it
		in.events.Corrupt(in.node.space.State(r.claim.ID()), fmt.Errorf("encode state: %w", err))
		in.release(r)
		return
	}
	if in.enter(r, life.Ending); kind == coordinator.Done {
		r.claim.traceEnd()
	}
	ending.Replaces, ending.Command = r.stateRevision, r.command.of()
	ending.Unrecorded = !r.recorded
	if kind == coordinator.Done {
		t := in.tasks.Remains(r.claim.held.ID)
		ending.Bare = in.tasks.Revision() >= r.claim.held.Token && t != nil && !in.tasks.HasNote(t.ID) && t.Failed == mirror.NotFailed && r.handTo == ""
	}
	r.ending = &ending
	in.queueEnding(r)
}

// drop forgets a run whose claim is gone. Only the history can still tell of it.
func (in *incarnation) drop(r *run, cause error) {
	in.events.Fenced(r.claim.ID(), r.claim.Token(), cause)
	at := time.Now()
	if r.returned != 0 && r.phase != life.Parked {
		at = in.node.timeOf(r.returned)
	}
	in.out.audit.Lost(&r.claim.held, cause, r.published.started != 0, at)
	in.reportEnd(r, events.Dropped)
	in.forget(r.claim.ID())
}

// lose handles a claim that the mirror shows as gone. One that is being ended finds out by its own transaction, or that
// is what removed it.
func (in *incarnation) lose(r *run, cause error) {
	switch r.phase.On(life.Lose) {
	case life.Forget:
		in.drop(r, cause)
	case life.StopHandler:
		r.cause = cause
		in.halt(r, cause)
	case life.Note:
		r.cause = cause
	}
}

// forget removes a claim from the records. What the mirror still shows of it, or has
// not shown yet, must not be mistaken for a claim without a run.
func (in *incarnation) forget(id string) {
	r := in.runs[id]
	delete(in.runs, id)
	in.claims ^= r.claim.sum()
	in.countRun(r)
	r.dequeued.settle(events.Dropped)
	r.dequeued = nil
	in.parked.remove(r)
	in.timeouts.Remove(id)
	if !r.leaving() {
		in.board.LoadFell()
	}
	in.node.mu.Lock()
	in.node.uncount(id)
	delete(in.node.held, id)
	in.node.mu.Unlock()
	token := r.claim.held.Token
	seen := in.tasks.Revision() >= token
	if t := in.tasks.Remains(id); !seen || (t != nil && t.Token == token) {
		in.endedByUs[id] = endedClaim{token: token}
	} else if t != nil && t.Exists() && !t.Owned() {
		in.board.Add(t, time.Now())
	}
}

// publishRun publishes a run for Node.Tasks and the fence.
func (n *Node) publishRun(r *run) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.showRun(r)
}

// showRun is publishRun for callers that hold the lock.
func (n *Node) showRun(r *run) {
	f := &r.published
	n.uncount(r.claim.held.ID)
	f.since, f.state, f.parked, f.handle = r.since, codeOf(r.record.State), r.phase == life.Parked, r.handle
	n.held[r.claim.held.ID] = r
	n.states[f.state]++
}

// reportGrant reports a granted claim, and traces it.
func (in *incarnation) reportGrant(claim *Claim, p *prospect) {
	g := events.Grant{Task: claim.held.ID, Type: claim.kind.Spec.Type, Token: claim.Token(), Cause: p.cause, From: p.from}
	if p.adopted {
		g.Cause = events.Adopted
	} else {
		g.Waited = claim.held.At.Sub(p.since)
	}
	claim.traceGrant(g)
	in.events.Granted(g)
}

func (in *incarnation) reportEnd(r *run, outcome events.Outcome) {
	r.dequeued.settle(outcome)
	r.dequeued = nil
	e := events.End{Task: r.claim.ID(), Type: r.class().Type, Token: r.claim.Token(), Outcome: outcome, Ran: r.published.started != 0}
	if e.Ran {
		e.Took = time.Since(in.node.timeOf(r.published.started))
	}
	r.claim.trace.recorded(outcome)
	in.events.Ended(e)
}
