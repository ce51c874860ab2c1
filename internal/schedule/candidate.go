package schedule

import (
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
)

// Candidate is a task that no node holds, as this node sees it.
type Candidate struct {
	// ID is the ID of the task. Created and Modified are the revisions of its creation
	// and of its last change.
	ID                string
	Created, Modified broker.Revision
	// Since is when this node first saw it claimable.
	Since time.Time

	Reading
	// Skipped is the task whose failure causes this one to be killed, empty for none.
	// SkippedAt is the revision at which that failure was marked.
	Skipped   string
	SkippedAt broker.Revision
	// InsteadOf is the node that should have claimed it and has not, once this node
	// claims it in that node's stead.
	InsteadOf string

	// lastOwner is the node that held it last, empty if that is not known. seen is when
	// this node first saw it without an owner.
	// keptFor is the node that it is kept for, as whose load it counts; empty for none.
	lastOwner string
	seen      time.Time
	keptFor   string
	// slot is the time that the brake has assigned to it, zero for none. refusedUntil
	// is when the balancer wants to be asked again.
	slot, refusedUntil time.Time
	look
	targeting
}

// Reading is the node's view of a task.
type Reading struct {
	// Kind is the content of its spec, and Blockers the tasks that it waits for.
	Kind     *kind.Facts
	Blockers []string
	// Ours is true if this node may run the task: it has a handler for it and meets the
	// task's requirements. Pulled is true if it takes the task only for a call of
	// Dequeue.
	Ours, Pulled bool
	// App is the node's own data about the task.
	App any
}

// look says when to check a candidate again.
type look struct {
	// soon is set for the next pass.
	soon bool
	// read is set once there is a Reading.
	read bool
	// waiting is set once the candidate is registered as a waiter of its blockers, and
	// waitsFor is the one of them whose end is the next that can change anything; empty
	// for none.
	waiting  bool
	waitsFor string
	// doubted is set while the store has refused its claim as owned or gone, and the
	// copy does not show that yet.
	doubted bool
	// changed is set if the copy has shown a change of it while it was being claimed.
	changed bool
}

// targeting says which node is to have a candidate.
type targeting struct {
	// open is set if only rank and balance can prevent its claim. planned is set if it
	// has a target, since plannedAt. foreign is set if the target is another node
	// although this one could run it.
	open, planned, foreign bool
	target                 string
	plannedAt              time.Time
	// byName is set if its target was chosen by names, so that nodes which have seen
	// other tasks choose the same. rank is this node's place among those that stand in
	// for the target, zero while not known.
	byName bool
	rank   int
	// queue is where it waits for a node with room, nil if it does not, and place its
	// place there. next and last link those that have a target.
	queue      *openQueue
	place      int
	next, last *Candidate
}

// candidates has all candidates and when to check each again.
type candidates struct {
	byID map[string]*Candidate
	// soon has those to check in the next pass, and some that no longer need it. due
	// says when to check others. Most wait for nothing, and a heap of them all would
	// cost more than everything else about them.
	soon []*Candidate
	due  Times
	// doubts is the number of doubted candidates.
	doubts int
	// waiters has the candidates that wait for the end of a task, or of all below a job, by
	// their blockers. forTrees counts those that wait for all below some job.
	waiters  map[string]map[string]struct{}
	forTrees int
	// refusedByBalancer is set if the balancer refused some since it was last asked
	// about all of them, which is repeated at retryAt at the earliest.
	refusedByBalancer bool
	retryAt           time.Time
	// most is the largest number of candidates since there were none.
	most int
}

func newCandidates() candidates {
	return candidates{byID: map[string]*Candidate{}, waiters: map[string]map[string]struct{}{}}
}

// shrinkFrom is the number of candidates from which their maps are replaced once none
// is left. Maps keep the size that they had, and a node may look at a hundred thousand
// tasks once and at none ever after.
const shrinkFrom = 1000

// emptied reports whether no candidate is left after so many that the maps are to be
// replaced.
func (cs *candidates) emptied() bool {
	cs.most = max(cs.most, len(cs.byID)+1)
	return len(cs.byID) == 0 && cs.most > shrinkFrom
}

// lookSoon schedules a candidate for the next pass.
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

// lookAt schedules a candidate for a time, and not before.
func (cs *candidates) lookAt(c *Candidate, at time.Time) {
	c.soon = false
	cs.due.Set(c.ID, at)
}

// doubt schedules a candidate that was refused as owned or gone for when the copy shows
// what happened to it, or for a given time at the latest.
func (cs *candidates) doubt(c *Candidate, until time.Time) {
	if !c.doubted {
		c.doubted = true
		cs.doubts++
	}
	cs.lookAt(c, until)
}

// believe ends a doubt, and reports whether there was one.
func (cs *candidates) believe(c *Candidate) bool {
	was := c.doubted
	if c.doubted = false; was {
		cs.doubts--
	}
	return was
}

// believeAll schedules everything that is doubted: the copy shows the current state,
// and not what came and went before that.
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

// popDue removes and returns the candidates to check now.
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

// next returns when to check one of them, zero for never.
func (cs *candidates) next() time.Time {
	if len(cs.soon) > 0 {
		return cs.soon[0].seen // which is in the past
	}
	return cs.due.Next()
}

// drop forgets a candidate.
func (cs *candidates) drop(c *Candidate) {
	if c.waiting {
		for _, b := range c.Blockers {
			if delete(cs.waiters[b], c.ID); len(cs.waiters[b]) == 0 {
				delete(cs.waiters, b)
			}
		}
		cs.countTrees(c, -1)
	}
	delete(cs.byID, c.ID)
	c.soon = false
	cs.due.Remove(c.ID)
	cs.believe(c)
}

// wait records that a candidate waits for other tasks, of which one is known to be
// there. It is registered with all of them: any can fail and skip it, also one that is
// absent now.
func (cs *candidates) wait(c *Candidate, waitsFor string) {
	if c.waitsFor = waitsFor; waitsFor == "" || c.waiting {
		return
	}
	c.waiting = true
	for _, b := range c.Blockers {
		if cs.waiters[b] == nil {
			cs.waiters[b] = map[string]struct{}{}
		}
		cs.waiters[b][c.ID] = struct{}{}
	}
	cs.countTrees(c, +1)
}

func (cs *candidates) countTrees(c *Candidate, by int) {
	if slices.ContainsFunc(c.Blockers, depend.IsTree) {
		cs.forTrees += by
	}
}

// freed checks again what the end of a task can change: the candidates that are known
// to wait for it and, if it skips those that wait, all others that are not to be killed
// already. A check looks at all blockers, of which there may be thousands.
func (cs *candidates) freed(id string, tasks *mirror.Tasks) {
	skips := tasks.Remains(id).Skips()
	cs.free(id, id, skips, true)
	if cs.forTrees == 0 {
		return
	}
	for _, job := range depend.Ancestors(id) {
		cs.free(depend.AllBelow(job), id, skips, tasks.Below(job) == 0)
	}
}

// free is freed for one blocker that a task belongs to, which may have ended with it.
func (cs *candidates) free(blocker, id string, skips, ended bool) {
	for waiter := range cs.waiters[blocker] {
		if c := cs.byID[waiter]; ended && c.waitsFor == blocker || c.Skipped == id || skips && c.Skipped == "" {
			cs.lookSoon(c)
		}
	}
}
