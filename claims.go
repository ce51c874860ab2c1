package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/heap"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/internal/schedule"
	"github.com/windlass-go/windlass/statemachine"
)

// prospect is the node's own data about a claim in flight.
type prospect struct {
	task Task
	// adopted is true if the claim turned up later, and nobody knows any more why it
	// was made.
	adopted bool
	// skipped is the task whose failure causes this one to be claimed, in order to kill
	// it; empty for none.
	skipped string
	// reason says for people why it is claimed; cause is that in one word, and from the
	// node that held it before.
	reason string
	cause  GrantCause
	from   string
	// ended is the claim before, if this node has seen its end.
	ended mirror.End
	// since is when this node first saw it claimable.
	since time.Time
}

// newBoard returns the board of this node.
func (in *incarnation) newBoard() *schedule.Board {
	return schedule.NewBoard(in.fleet, in.tasks, schedule.Rules{
		Held: in.occupied, LeftBehind: in.node.isLeftBehind, Read: in.read, Balancer: in.askBalancer, Apart: in.apart,
	})
}

// occupied reports whether this node holds a task, is asking whether it does, or knows
// that the copy is too old to tell.
func (in *incarnation) occupied(id string) bool {
	return in.runs[id] != nil || in.out.adopts.UnderWay(id) || in.endedByUs.after(id, in.tasks.Revision())
}

// busyWith reports whether this node holds a task, is claiming it, or cannot tell.
func (in *incarnation) busyWith(id string) bool { return in.board.IsFlight(id) || in.occupied(id) }

// read reads a task for the board. It returns false if this node leaves the task to
// others without knowing whether they take it.
func (in *incarnation) read(t *mirror.Task) (r schedule.Reading, ok bool) {
	k := in.kinds.OfTask(t)
	if k.Err != nil {
		in.events.Corrupt(in.node.space.Task(t.ID), k.Err)
		return r, false
	}
	self := in.info.placed()
	self.Types, self.Pulls = []string{k.Class.Type}, nil
	eligible := self.Excludes(k.Class) == ""
	r = schedule.Reading{
		Kind: &k.Facts, Blockers: k.Blockers(t.ID), Ours: eligible && in.config.handler(k.Class.Type) != nil, Pulled: eligible && in.config.pulls(k.Class.Type),
	}
	var task Task = plainTask(t.ID)
	if in.config.runs(k.Class.Type) {
		if task = in.makeTask(t.ID, t.Props()); task == nil {
			return r, false
		}
	}
	r.App = task
	return r, true
}

// makeTask makes a task from its properties, nil if the application ignores it.
func (in *incarnation) makeTask(id string, props json.RawMessage) Task {
	if in.config.NewTask == nil {
		return plainTask(id)
	}
	task, err := safeNewTask(in.config.NewTask, id, props)
	if err != nil {
		in.events.Corrupt(in.node.space.Props(id), err)
	}
	return task
}

// safeNewTask limits a panic in the application's function to its own task.
func safeNewTask(f NewTask, id string, props json.RawMessage) (task Task, err error) {
	defer func() {
		if v := recover(); v != nil {
			task, err = nil, fmt.Errorf("NewTask panicked: %v", v)
		}
	}()
	return f(id, props), nil
}

// askBalancer asks the balancer about tasks, one after the other. The balancer sees
// those that it accepts as this node's.
func (in *incarnation) askBalancer(now time.Time) func(c *schedule.Candidate) (bool, time.Time) {
	view := in.view(now)
	return func(c *schedule.Candidate) (bool, time.Time) {
		ok, again := in.config.Balancer.CanClaim(view, Candidate{
			Task: c.App.(Task), Spec: in.kinds.OfTask(in.tasks.Get(c.ID)).Spec, Waiting: now.Sub(c.Since),
		})
		if ok {
			view.Self.Tasks++
			view.Unowned--
		}
		return ok, again
	}
}

// claimPass queues the claims on the tasks that this node should have.
func (in *incarnation) claimPass(now time.Time) {
	for _, c := range in.board.Pass(in.info.placed(), now) {
		in.claim(c, now)
	}
	for _, taskType := range in.config.Pulls {
		if in.paused[taskType] {
			continue
		}
		for _, c := range in.board.Pull(taskType, in.node.pulls.count(taskType), now) {
			in.claim(c, now)
		}
	}
}

// claim queues the claim on a task.
func (in *incarnation) claim(c *schedule.Candidate, now time.Time) {
	t := in.tasks.Get(c.ID)
	in.giving.Claimed(c, t.For == in.config.Name, now)
	c.App = &prospect{
		task: c.App.(Task), skipped: c.Skipped, since: c.Since, reason: claimReason(c, t, in.config.Name), cause: grantCause(c, t, in.config.Name), from: t.Last,
		ended: in.deaths.Judged(in.tasks.End(t.ID)),
	}
	in.out.claims.Put(c.ID, coordinator.Wanted{
		ID: c.ID, PropsOnly: !t.HasKey, Created: c.Created, Modified: c.Modified, Blockers: c.Blockers,
		Skipped: c.Skipped, SkippedAt: c.SkippedAt, WithoutProps: !t.HasProps, HandedOver: in.tasks.HasNote(t.ID),
	}, time.Time{})
}

// reasonUpdated is the reason of a claim on a task that was changed or restarted.
const reasonUpdated = "changed or restarted while this node held it"

// claimReason says for people why a node claims a task.
func claimReason(c *schedule.Candidate, t *mirror.Task, node string) string {
	switch {
	case c.Pulled:
		return "dequeued"
	case c.InsteadOf != "":
		return "node " + c.InsteadOf + " should have claimed it and did not"
	case t.For == node && t.Last == node:
		return reasonUpdated
	case t.For == node && t.Last != "":
		return "moved here from node " + t.Last
	case t.For == node:
		return "moved here" // before this node had a copy
	case t.Last != "":
		return "taken over from node " + t.Last
	}
	return "placed"
}

// grantCause returns why a node claims a task.
func grantCause(c *schedule.Candidate, t *mirror.Task, node string) GrantCause {
	switch {
	case c.Pulled:
		return GrantDequeued
	case t.Last == node:
		return GrantReturned
	case t.For == node: // of one that moved before this node had a copy Last is empty
		return GrantMoved
	case t.Last == "":
		return GrantPlaced
	}
	return GrantTakenOver
}

// answerOf converts the error of a claim.
func answerOf(err error) schedule.Answer {
	switch {
	case err == nil:
		return schedule.Granted
	case errors.Is(err, coordinator.ErrOwned), errors.Is(err, coordinator.ErrGone):
		return schedule.Taken
	case errors.Is(err, coordinator.ErrChanged):
		return schedule.Changed
	}
	return schedule.Failed
}

// isFree reports whether a queued claim could still be granted, as far as the copy
// shows. If not, the claim is withdrawn.
func (in *incarnation) isFree(id string, _ coordinator.Wanted) bool {
	if t := in.tasks.Get(id); t != nil && !t.Owned() {
		return true
	}
	in.board.Landed(id, schedule.Withdrawn)
	in.checkClaim(id) // it may be one of this node that turned up late
	return false
}

// dropQueued withdraws the claims that were not sent yet.
func (in *incarnation) dropQueued() {
	now := time.Now()
	for _, w := range in.out.claims.DropAll() {
		in.board.Landed(w.ID, schedule.Withdrawn)
		if t := in.tasks.Get(w.ID); t != nil && !t.Owned() {
			in.board.Add(t, now)
		}
	}
}

// claimed handles the results of a call to claim or adopt.
func (in *incarnation) claimed(wanted []coordinator.Wanted, results []coordinator.Result, adopted bool) {
	now := time.Now()
	in.out.audit.BusyAt = now
	for i, result := range results {
		id := wanted[i].ID
		err := result.Err
		c := in.board.Landed(id, answerOf(err))
		if err == nil && in.isOver(result.Granted) {
			err = fmt.Errorf("%w: the owner key of task %q is gone", ErrLost, id)
			in.events.Fenced(id, int64(result.Token), err)
		}
		switch {
		case in.runs[id] != nil: // cannot be: nothing is claimed or asked about that runs
		case err != nil:
			in.claimRefused(wanted[i], err, now, c)
		case adopted:
			in.events.Adopted(id, int64(result.Token))
			in.begin(result.Granted, &prospect{
				task: in.makeTask(id, result.Props), adopted: true, reason: "a claim whose outcome had been unknown turned up",
			})
		default:
			in.begin(result.Granted, c.App.(*prospect))
		}
	}
	in.giving.Landed()
}

// isOver reports whether a claim whose grant is only now known has ended since: the
// mirror is ahead of the answer and shows that it is gone.
func (in *incarnation) isOver(g coordinator.Granted) bool {
	t := in.tasks.Remains(g.ID)
	held := t != nil && t.Session == in.session.ID() && t.Token == g.Token
	return in.endedByUs[g.ID].token == g.Token || (in.tasks.Revision() >= g.Token && !held)
}

// claimRefused schedules another check of a task where that is useful. was is the
// candidate that was to be claimed, nil if an owner was asked about.
func (in *incarnation) claimRefused(wanted coordinator.Wanted, err error, now time.Time, was *schedule.Candidate) {
	id := wanted.ID
	switch {
	case errors.Is(err, coordinator.ErrOwned), errors.Is(err, coordinator.ErrGone),
		errors.Is(err, coordinator.ErrBlocked), errors.Is(err, coordinator.ErrChanged), errors.Is(err, ErrLost):
	default:
		in.events.BrokerTrouble(fmt.Errorf("claim %q: %w", id, err))
	}
	t := in.tasks.Get(id)
	if t == nil || t.Owned() {
		if in.checkClaim(id); was == nil && in.out.adopts.Has(id) {
			in.out.adopts.Put(id, wanted, now.Add(retryClaim))
		}
		return
	}
	in.board.Refused(t, was, answerOf(err), now)
}

// ended handles the results of a call to end.
func (in *incarnation) ended(endings []coordinator.Ending, results []coordinator.Ended) {
	now := time.Now()
	in.out.audit.BusyAt = now
	for i, result := range results {
		run, err := in.runs[endings[i].ID], result.Err
		if run == nil || run.claim.token() != endings[i].Token {
			continue
		}
		switch {
		case errors.Is(err, coordinator.ErrFenced) || errors.Is(err, broker.ErrSessionExpired):
			in.drop(run, err)
		case errors.Is(err, coordinator.ErrGone):
			in.abandon(run)
		case errors.Is(err, coordinator.ErrSuperseded):
			in.superseded(run)
		case errors.Is(err, coordinator.ErrStateChanged):
			// Someone wrote it by hand, or an older save of ours was applied late: what
			// the owner writes replaces it.
			run.stateRevision = result.StateRevision
			run.ending.Replaces = result.StateRevision
			in.queueEnding(run)
		case broker.Temporary(err):
			in.endAgain(run, err)
		case err != nil:
			in.endRefused(run, err)
		case endings[i].Kind == coordinator.Save:
			run.stateRevision = result.StateRevision
			in.orderDone(run)
			in.out.audit.stored(run, endings[i].At)
			run.since = in.node.momentOf(endings[i].At)
			in.saved(run)
		default:
			in.orderDone(run)
			if in.out.audit.ended(run, endings[i].Kind, endings[i].At); result.Requeued {
				in.out.audit.requeued(run, now)
			}
			in.reportEnd(run, run.outcome)
			if endings[i].Kind == coordinator.Done {
				in.fleet.Ended(run.class().Type, in.node.lasted(run, now), now)
			}
			in.forget(run.claim.ID())
		}
	}
}

// lasted returns how long a task took that has ended: until its handler returned. The
// time to store that shows how busy the cluster is, and not how long such tasks take.
func (n *Node) lasted(r *run, now time.Time) time.Duration {
	if r.returned != 0 {
		now = n.timeOf(r.returned)
	}
	return now.Sub(r.claim.claimedAt)
}

// queueEnding queues the ending of a run, to be sent as soon as the broker takes it.
func (in *incarnation) queueEnding(r *run) {
	in.out.endings.Put(r.claim.id, *r.ending, time.Time{})
}

// endAgain queues an ending again that the broker did not answer or could not apply
// now. It is repeated for as long as the incarnation lasts.
func (in *incarnation) endAgain(r *run, err error) {
	r.ending.Again = r.ending.Again || broker.MaybeApplied(err)
	in.queueEnding(r)
	if now := time.Now(); !in.out.endings.Paused(now) {
		in.out.endings.Pause(now.Add(retryEnd))
		in.events.BrokerTrouble(fmt.Errorf("store what became of %q: %w", r.claim.ID(), err))
	}
}

// endRefused handles a state that the broker will never accept, for example because it
// is too large: the claim is given back without it.
func (in *incarnation) endRefused(r *run, err error) {
	in.events.Corrupt(in.node.space.State(r.claim.ID()), fmt.Errorf("store state: %w", err))
	if r.ending.Kind == coordinator.Release {
		in.endAgain(r, err) // or the claim would be held for nobody
		return
	}
	in.release(r)
}

// saved continues a run whose state is now stored.
func (in *incarnation) saved(r *run) {
	switch {
	case in.lost || errors.Is(r.cause, ErrLost):
		in.drop(r, r.cause)
	case errors.Is(r.cause, ErrDeleted):
		in.abandon(r)
	case r.cause != nil:
		in.release(r)
	case r.record.State != statemachine.Runnable && r.published.started != 0:
		in.reportEnd(r, map[statemachine.State]Outcome{statemachine.Sleeping: OutcomeSleeping, statemachine.Paused: OutcomePaused}[r.record.State])
		in.node.mu.Lock()
		r.published.started, r.published.stopped = 0, 0
		in.node.mu.Unlock()
		in.resume(r)
	default:
		in.resume(r)
	}
}

// patientGet is Get for a broker that may be unreachable: it retries until ctx is done.
func patientGet(ctx context.Context, b broker.Broker, key string) (broker.KV, error) {
	for {
		kv, err := b.Get(ctx, key)
		if !broker.Temporary(err) || !pause.For(ctx, retryEnd) {
			return kv, err
		}
	}
}

// parkedQueue holds the runs that are to continue at a time, the earliest first. A node
// can hold a hundred thousand sleeping tasks, so each knows its own place instead of
// being looked up.
type parkedQueue struct{ heap *heap.Heap[parkedRun] }

// parkedRun is a run and when it is to continue, in nanoseconds since 1970. That is
// wall clock time, on which all nodes agree.
type parkedRun struct {
	run *run
	at  int64
}

func newParkedQueue() parkedQueue {
	return parkedQueue{heap.New(
		func(a, b parkedRun) bool { return a.at < b.at },
		func(p parkedRun, place int) { p.run.wakes = int32(place + 1) },
	)}
}

// set sets or changes the time of a run.
func (q parkedQueue) set(r *run, at time.Time) {
	if p := (parkedRun{run: r, at: wallNanos(at)}); r.wakes > 0 {
		q.heap.Set(int(r.wakes-1), p)
	} else {
		q.heap.Push(p)
	}
}

// remove removes a run.
func (q parkedQueue) remove(r *run) {
	if r.wakes > 0 {
		q.heap.Remove(int(r.wakes - 1))
	}
}

// next returns the earliest time, zero if there is none.
func (q parkedQueue) next() time.Time {
	if q.heap.Len() == 0 {
		return time.Time{}
	}
	return time.Unix(0, q.heap.First().at)
}

// popDue removes and returns the runs whose time has come, in time order.
func (q parkedQueue) popDue(now time.Time) (due []*run) {
	for q.heap.Len() > 0 && q.heap.First().at <= now.UnixNano() {
		due = append(due, q.heap.Pop().run)
	}
	return due
}

// wallNanos converts a time for parkedRun. Times after the year 2262 become its largest
// value.
func wallNanos(t time.Time) int64 {
	if t.After(time.Unix(0, math.MaxInt64)) {
		return math.MaxInt64
	}
	return t.UnixNano()
}
