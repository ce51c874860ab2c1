package windlass

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/schedule"
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
	cause  events.Cause
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
	self := in.info.Placed()
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
	for _, c := range in.board.Pass(in.info.Placed(), now) {
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
		Ref: coordinator.Ref{ID: c.ID, Created: c.Created, PropsOnly: !t.HasKey}, Modified: c.Modified, Blockers: c.Blockers,
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
func grantCause(c *schedule.Candidate, t *mirror.Task, node string) events.Cause {
	switch {
	case c.Pulled:
		return events.Dequeued
	case t.Last == node:
		return events.Returned
	case t.For == node: // of one that moved before this node had a copy Last is empty
		return events.Moved
	case t.Last == "":
		return events.Placed
	}
	return events.TakenOver
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
