package windlass

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/schedule"
)

// prospect is what a node keeps with a claim that is on its way.
type prospect struct {
	task Task
	// adopted tells that the claim on it turned up, and that nobody knows any more
	// what it was made for.
	adopted bool
	// skipped is the task whose failure is why it is claimed, to be killed; empty for none.
	skipped string
	// reason is why it is claimed, for people; cause is that in one word, and from
	// the node that held it before.
	reason string
	cause  GrantCause
	from   string
	// since is when this node first saw it claimable.
	since time.Time
}

// newBoard makes the board of this node.
func (in *incarnation) newBoard() *schedule.Board {
	return schedule.NewBoard(in.fleet, in.tasks, schedule.Rules{
		Held: in.occupied, LeftBehind: in.node.isLeftBehind, Read: in.read, Balancer: in.askBalancer,
	})
}

// occupied tells whether this node holds a task, is asking whether it does, or knows that the
// copy is too old to say anything about it.
func (in *incarnation) occupied(id string) bool {
	return in.runs[id] != nil || in.out.adopts.UnderWay(id) || in.tombs.after(id, in.tasks.Revision())
}

// busyWith tells whether this node holds a task, is claiming it, or cannot tell.
func (in *incarnation) busyWith(id string) bool { return in.board.IsFlight(id) || in.occupied(id) }

// read reads what a task is. It returns false if this node leaves it to others without
// knowing whether they take it.
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
		Kind: &k.Facts, Ours: eligible && in.config.handler(k.Class.Type) != nil, Pulled: eligible && in.config.pulls(k.Class.Type),
	}
	var task Task = plainTask(t.ID)
	if in.config.runs(k.Class.Type) {
		if task = in.makeTask(t.ID, t.Props()); task == nil {
			return r, false
		}
	}
	var err error
	if r.Blockers, err = k.Blockers(t); err != nil {
		in.events.Corrupt(in.node.space.Task(t.ID), err)
		return r, false
	}
	r.App = task
	return r, true
}

// makeTask makes a task of its properties, nil if the application ignores it.
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

// safeNewTask keeps a panic in the application's function to its own task.
func safeNewTask(f NewTask, id string, props json.RawMessage) (task Task, err error) {
	defer func() {
		if v := recover(); v != nil {
			task, err = nil, fmt.Errorf("NewTask panicked: %v", v)
		}
	}()
	return f(id, props), nil
}

// askBalancer asks the balancer about tasks, one after the other. It sees those that it
// takes as this node's.
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

// claimPass queues the claims on what this node should have.
func (in *incarnation) claimPass(now time.Time) {
	for _, c := range in.board.Pass(in.info.placed(), now) {
		in.claim(c, now)
	}
	for _, taskType := range in.config.Pulls {
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
	}
	in.out.claims.Put(c.ID, coordinator.Wanted{
		ID: c.ID, PropsOnly: !t.HasKey, Created: c.Created, Modified: c.Modified, Blockers: c.Blockers,
		Skipped: c.Skipped, SkippedAt: c.SkippedAt, WithoutProps: !t.HasProps, HandedOver: in.tasks.HasNote(t.ID),
	}, time.Time{})
}

// claimReason says for people why a node claims a task.
func claimReason(c *schedule.Candidate, t *mirror.Task, node string) string {
	switch {
	case c.Pulled:
		return "dequeued"
	case c.InsteadOf != "":
		return "node " + c.InsteadOf + " should have claimed it and did not"
	case t.For == node && t.Last != "":
		return "moved here from node " + t.Last
	case t.For == node:
		return "moved here" // before this node had a copy
	case t.Last != "":
		return "taken over from node " + t.Last
	}
	return "placed"
}

// grantCause is why a node claims a task.
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

// answerOf is what the answer to a claim says.
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

// isFree tells whether a claim that is queued could be granted, as far as the copy shows by
// now. If not, it is taken back.
func (in *incarnation) isFree(id string, _ coordinator.Wanted) bool {
	if t := in.tasks.Get(id); t != nil && !t.Owned() {
		return true
	}
	in.board.Landed(id, schedule.Withdrawn)
	in.checkClaim(id) // it may be one of this node that turned up late
	return false
}

// dropQueued takes back the claims that were not asked for yet.
func (in *incarnation) dropQueued() {
	now := time.Now()
	for _, w := range in.out.claims.DropAll() {
		in.board.Landed(w.ID, schedule.Withdrawn)
		if t := in.tasks.Get(w.ID); t != nil && !t.Owned() {
			in.board.Add(t, now)
		}
	}
}
