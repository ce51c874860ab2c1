package schedule

import (
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/kind"
)

// Candidate is a task that nobody holds, as this node sees it.
type Candidate struct {
	// ID is that of the task. Created and Modified are the revisions at which it came
	// to exist and was changed last.
	ID                string
	Created, Modified broker.Revision
	// Since is when this node first saw it claimable.
	Since time.Time

	Reading
	// Skipped is the task whose failure is why this one is to be killed, empty for
	// none, and SkippedAt the revision at which that was marked.
	Skipped   string
	SkippedAt broker.Revision
	// InsteadOf is the node that should have claimed it and has not, once it is claimed
	// in that node's stead.
	InsteadOf string

	// lastOwner is the node that held it last, empty if that is not known; seen is when
	// this node first saw it without an owner.
	lastOwner string
	seen      time.Time
	// slot is the time that the brake has given it, zero for none; refusedUntil is when
	// the balancer wants to be asked again.
	slot, refusedUntil time.Time
	look
	targeting
}

// Reading is what a node makes of a task.
type Reading struct {
	// Kind is what its spec says, and Blockers the tasks that it waits for.
	Kind     *kind.Facts
	Blockers []string
	// Ours reports that this node may run it: it has a handler for it, and whatever
	// else the task asks for. Pulled reports that it takes it for a call of Dequeue
	// only.
	Ours, Pulled bool
	// App is whatever the node keeps with it.
	App any
}

// look is when to look at a candidate again.
type look struct {
	// soon is set for the next pass.
	soon bool
	// read is set once there is a Reading.
	read bool
	// doubted is set while the store has refused it as owned or gone, and the copy does
	// not show that yet.
	doubted bool
	// changed is set when the copy has shown a change of it while it was being claimed.
	changed bool
}

// targeting is who is to have a candidate.
type targeting struct {
	// open is set if nothing but rank and balance speaks against claiming it. planned is
	// set if it has a target, since plannedAt, and foreign if that is another node
	// although this one could run it.
	open, planned, foreign bool
	target                 string
	plannedAt              time.Time
	// byName is set if its target was chosen by names, so that nodes which have seen
	// other tasks choose the same. rank is this node's place among those that stand in
	// for the target, zero while that is not known.
	byName bool
	rank   int
	// queue is where it waits for someone with room, nil if it does not, and place its
	// place there. next and last link those that have a target.
	queue      *openQueue
	place      int
	next, last *Candidate
}

// candidates are all of them, with when to look at each again.
type candidates struct {
	byID map[string]*Candidate
	// soon are those to be looked at in the next pass, with some that are not any
	// more; due says when to look at others. Most wait for nothing, and a heap
	// of them all would cost more than everything else about them.
	soon []*Candidate
	due  Times
	// doubts is how many of them are doubted.
	doubts int
	// waiters are the candidates that wait for a task to go, by that task.
	waiters map[string]map[string]struct{}
	// refusedByBalancer is set if the balancer refused some since it was last asked about all of
	// them, at retryAt at the earliest.
	refusedByBalancer bool
	retryAt           time.Time
	// most is how many there have been since there were none.
	most int
}

func newCandidates() candidates {
	return candidates{byID: map[string]*Candidate{}, waiters: map[string]map[string]struct{}{}}
}

// shrinkFrom is how many candidates there must have been for their maps to be
// given up when none is left: maps keep the size that they had, and a node may look
// at a hundred thousand tasks once and at none ever after.
const shrinkFrom = 1000

// emptied reports whether there is none any more, of so many that the maps are to be
// given up.
func (cs *candidates) emptied() bool {
	cs.most = max(cs.most, len(cs.byID)+1)
	return len(cs.byID) == 0 && cs.most > shrinkFrom
}

// lookSoon has a candidate looked at in the next pass.
func (cs *candidates) lookSoon(c *Candidate) {
	if c.soon {
		return
	}
	if len(cs.soon) > 2*len(cs.byID)+shrinkFrom {
		// A node that is frozen sees tasks come and go and looks at none.
		cs.soon = slices.DeleteFunc(cs.soon, func(c *Candidate) bool { return !c.soon })
	}
	c.soon = true
	cs.soon = append(cs.soon, c)
}

// lookAt has a candidate looked at when it is time, and not before.
func (cs *candidates) lookAt(c *Candidate, at time.Time) {
	c.soon = false
	cs.due.Set(c.ID, at)
}

// doubt has a candidate that was refused as owned or gone looked at when the copy shows
// what has become of it, or at some time at the latest.
func (cs *candidates) doubt(c *Candidate, until time.Time) {
	if !c.doubted {
		c.doubted = true
		cs.doubts++
	}
	cs.lookAt(c, until)
}

// believe takes a doubt back, and reports whether there was one.
func (cs *candidates) believe(c *Candidate) bool {
	was := c.doubted
	if c.doubted = false; was {
		cs.doubts--
	}
	return was
}

// believeAll has all that is doubted looked at: the copy shows how everything is, and not
// what has come and gone before that.
func (cs *candidates) believeAll() {
	if cs.doubts == 0 {
		return
	}
	for _, c := range cs.byID {
		if cs.believe(c) {
			cs.lookSoon(c)
		}
	}
}

// popDue takes out the candidates that are to be looked at now.
func (cs *candidates) popDue(now time.Time) []*Candidate {
	due := make([]*Candidate, 0, len(cs.soon))
	for _, c := range cs.soon {
		if c.soon {
			c.soon = false
			due = append(due, c)
		}
	}
	cs.soon = nil
	for _, id := range cs.due.PopDue(now) {
		if c := cs.byID[id]; c != nil {
			cs.believe(c)
			due = append(due, c)
		}
	}
	return due
}

// next is when to look at one of them, zero for never.
func (cs *candidates) next() time.Time {
	if len(cs.soon) > 0 {
		return cs.soon[0].seen // which is in the past
	}
	return cs.due.Next()
}

// drop forgets a candidate.
func (cs *candidates) drop(c *Candidate) {
	for _, b := range c.Blockers {
		if delete(cs.waiters[b], c.ID); len(cs.waiters[b]) == 0 {
			delete(cs.waiters, b)
		}
	}
	delete(cs.byID, c.ID)
	c.soon = false
	cs.due.Remove(c.ID)
	cs.believe(c)
}

// wait notes that a candidate waits for other tasks to go. It does for all of them: one
// that is not there now may be submitted and fail while another one is waited for.
func (cs *candidates) wait(c *Candidate) {
	for _, b := range c.Blockers {
		if cs.waiters[b] == nil {
			cs.waiters[b] = map[string]struct{}{}
		}
		cs.waiters[b][c.ID] = struct{}{}
	}
}

// freed looks again at what waited for a task that is gone.
func (cs *candidates) freed(id string) {
	for waiter := range cs.waiters[id] {
		if c := cs.byID[waiter]; c != nil {
			cs.lookSoon(c)
		}
	}
	delete(cs.waiters, id)
}
