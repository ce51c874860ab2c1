package schedule

import (
	"slices"
	"time"

	"github.com/windlass-go/windlass/internal/heap"
	"github.com/windlass-go/windlass/placement"
)

const (
	// agreeAfter is how long nothing must have changed before what others should have
	// claimed by now is planned again. Nodes that saw tasks come in different portions
	// have different plans, and agree when they have all seen the same.
	agreeAfter = 50 * time.Millisecond
	// replanEvery is the shortest time between two plans of all tasks that no node
	// holds, or, if that is longer, replanCost for each of those tasks and each node.
	// replanMax is the longest such time.
	replanEvery = 20 * time.Millisecond
	replanCost  = 2 * time.Microsecond
	replanMax   = time.Second
)

// targets is what a node knows of the targets of the tasks that no node holds. Every
// node plans for all of them, in the same way.
type targets struct {
	fleet *Fleet
	// open counts the candidates that could be claimed, by class. planned has those of
	// them that have a target, by class and node.
	open    map[*placement.Class]int
	planned map[*placement.Class]map[string]int
	// fresh has candidates that could be claimed and have not been planned yet.
	fresh map[string]*Candidate
	// ring links those that have a target.
	ring Candidate
	// foreign counts those whose target is another node and that this node can run.
	foreign int
	// nowhere has those that no node can have now, by class. Those of a class in full
	// need not be checked before something changes.
	nowhere map[*placement.Class]*openQueue
	full    map[*placement.Class]bool
	// pulled has those that this node takes for calls of Dequeue only, by type.
	pulled map[string]*openQueue
	// dirty is set when a change of the cluster could change the plan; stale when it
	// has.
	dirty, stale bool
	// changedAt is when the last change of a task was seen; agreed is set once
	// everything was planned again since.
	changedAt time.Time
	agreed    bool
	// agreeing is set when everything is to be planned again, except what is planned by
	// names.
	agreeing bool
	// planAt is when everything can be planned again, sweepAt when to look for tasks
	// that their target has not claimed.
	planAt, sweepAt time.Time
	// oldest is the earliest time since when one of the foreign candidates that are
	// waited for in some way has had its target.
	oldest map[awaited]time.Time
	// busyAt is when this node was last seen to claim something.
	busyAt time.Time
}

func newTargets(fleet *Fleet) *targets {
	ts := &targets{fleet: fleet}
	ts.ring.next, ts.ring.last = &ts.ring, &ts.ring
	ts.reset()
	return ts
}

// reset replaces the maps, which have no candidates left.
func (ts *targets) reset() {
	ts.open, ts.planned, ts.fresh = map[*placement.Class]int{}, map[*placement.Class]map[string]int{}, map[string]*Candidate{}
	ts.nowhere, ts.full, ts.pulled = map[*placement.Class]*openQueue{}, map[*placement.Class]bool{}, map[string]*openQueue{}
	ts.oldest = map[awaited]time.Time{}
}

// add adds a candidate that could be claimed.
func (ts *targets) add(c *Candidate) {
	if c.open {
		return
	}
	c.open = true
	if c.Pulled {
		queueOf(ts.pulled, c.Kind.Class.Type).push(c)
		return
	}
	ts.open[c.Kind.Class]++
	ts.fresh[c.ID] = c
}

// queueOf returns a queue, and creates it if needed.
func queueOf[K comparable](queues map[K]*openQueue, of K) *openQueue {
	q := queues[of]
	if q == nil {
		q = newOpenQueue()
		queues[of] = q
	}
	return q
}

// remove removes a candidate that is claimed, gone or not to be claimed now.
func (ts *targets) remove(c *Candidate) {
	if !c.open {
		return
	}
	c.open = false
	if c.queue != nil {
		c.queue.remove(c)
	}
	if c.Pulled {
		return
	}
	ts.unassign(c)
	delete(ts.fresh, c.ID)
	c.target, c.plannedAt = "", time.Time{}
	if q := ts.nowhere[c.Kind.Class]; q != nil && q.first() == nil {
		delete(ts.nowhere, c.Kind.Class)
	}
	if ts.open[c.Kind.Class]--; ts.open[c.Kind.Class] == 0 {
		delete(ts.open, c.Kind.Class)
	}
}

// assign sets the target of a candidate.
func (ts *targets) assign(c *Candidate, target string, self string, now time.Time) {
	delete(ts.fresh, c.ID)
	if c.target != target || c.plannedAt.IsZero() {
		c.plannedAt, c.rank = now, 0 // a target that stays has been waited for already
	}
	c.target, c.planned = target, true
	c.last, c.next = ts.ring.last, &ts.ring
	c.last.next, c.next.last = c, c
	byNode := ts.planned[c.Kind.Class]
	if byNode == nil {
		byNode = map[string]int{}
		ts.planned[c.Kind.Class] = byNode
	}
	byNode[target]++
	if c.foreign = target != self && c.Ours; c.foreign {
		if ts.foreign++; ts.foreign == 1 {
			ts.sweepAt = now.Add(time.Minute)
			clear(ts.oldest)
		}
		ts.waitFor(c)
		ts.sweepAt = earliest(ts.sweepAt, c.plannedAt.Add(RankStep))
	}
}

// unassign removes the target of a candidate, which remembers it.
func (ts *targets) unassign(c *Candidate) {
	if !c.planned {
		return
	}
	if c.foreign {
		ts.foreign--
	}
	byNode := ts.planned[c.Kind.Class]
	if byNode[c.target]--; byNode[c.target] == 0 {
		delete(byNode, c.target)
	}
	if len(byNode) == 0 {
		delete(ts.planned, c.Kind.Class)
	}
	c.last.next, c.next.last = c.next, c.last
	c.last, c.next = nil, nil
	c.planned, c.foreign = false, false
}

// plan returns the current plan, in which assigned candidates keep their targets. It
// returns false if some of them are out of date.
func (ts *targets) plan(self placement.Node) (p *placement.Plan, upToDate bool) {
	p, upToDate = placement.New(ts.fleet.View(self, ts.open, ts.fleet.ShortLived())), true
	for c, byNode := range ts.planned {
		for node, n := range byNode {
			if !p.Given(c, node, n) {
				upToDate = false
			}
		}
	}
	return p, upToDate
}

// planPass assigns a target to every candidate that has none, and to all of them again
// if the cluster has changed. It returns those whose target this node has become.
func (b *Board) planPass(now time.Time) (mine []*Candidate) {
	ts := b.targets
	if len(ts.open) == 0 {
		ts.dirty, ts.stale, ts.agreeing = false, false, false
		clear(ts.full)
		return nil
	}
	if b.toAgree() && now.Sub(ts.changedAt) >= agreeAfter {
		ts.agreeing, ts.agreed = true, true
	}
	if len(ts.fresh) == 0 && !ts.dirty && !ts.mayPlanAnew(now) {
		return nil
	}
	plan, upToDate := ts.plan(b.self)
	ts.stale = ts.stale || !upToDate
	if ts.mayPlanAnew(now) {
		for c, next := ts.ring.next, (*Candidate)(nil); c != &ts.ring; c = next {
			next = c.next
			if ts.stale || !c.byName || !plan.ByName(c.Kind.Class) || b.handedTo(c) != "" {
				ts.unassign(c)
				ts.fresh[c.ID] = c
			}
		}
		plan, _ = ts.plan(b.self)
		ts.stale, ts.agreeing, ts.planAt, ts.dirty = false, false, now.Add(ts.replanPause()), true
	}
	if ts.dirty {
		clear(ts.full)
	}
	ts.dirty = false
	place := func(c *Candidate, target string) {
		if ts.assign(c, target, b.self.Name, now); target == b.self.Name {
			mine = append(mine, c)
		}
	}
	turn := make([]*Candidate, 0, len(ts.fresh))
	for _, c := range ts.fresh {
		if target := b.handedTo(c); target != "" {
			plan.Given(c.Kind.Class, target, 1)
			c.byName = false
			place(c, target)
		} else {
			turn = append(turn, c)
		}
	}
	clear(ts.fresh)
	slices.SortFunc(turn, (*Candidate).order)
	ts.assignQueued(plan, turn, func(c *Candidate, target string) {
		c.byName = plan.ByName(c.Kind.Class)
		place(c, target)
	})
	return mine
}

// exchangeLook limits how many targets are checked for one that is to be planned again.
const exchangeLook = 1000

// claimedBy handles a candidate that was claimed by a node other than its target,
// although the target claims what it should. It removes the target of the first task
// that is assigned to the new owner.
//
// Nodes that disagree assign two tasks to two nodes in opposite ways. The two claims
// are seen at different times, and plans in between use loads that are wrong by one.
// Without this exchange, a disagreement would return one lag later, for as long as
// tasks keep coming.
func (b *Board) claimedBy(c *Candidate, owner string) {
	ts := b.targets
	if !c.planned || c.byName || c.target == owner || c.target == b.self.Name || b.fleet.Overdue(c.target) || ts.planned[c.Kind.Class][owner] == 0 {
		return
	}
	left := exchangeLook // they are linked in the order in which they were planned
	for other := ts.ring.next; other != &ts.ring && left > 0; other, left = other.next, left-1 {
		if other.target == owner && other.Kind.Class == c.Kind.Class && !other.byName && b.handedTo(other) == "" {
			ts.unassign(other)
			ts.fresh[other.ID] = other
			return
		}
	}
}

// mayPlanAnew reports whether candidates that have a target may get another one now.
func (ts *targets) mayPlanAnew(now time.Time) bool {
	return (ts.stale || ts.agreeing) && !now.Before(ts.planAt)
}

// replanPause returns how long a plan lasts: the more there is to plan and the more
// nodes do it, the less another plan gains.
func (ts *targets) replanPause() time.Duration {
	open := 0
	for _, n := range ts.open {
		open += n
	}
	return min(max(replanEvery, time.Duration(open*ts.fleet.Size())*replanCost), replanMax)
}

// assignQueued assigns the waiting candidates and some fresh ones, in their order, to
// the nodes that have room, until there is room for none.
func (ts *targets) assignQueued(plan *placement.Plan, fresh []*Candidate, place func(c *Candidate, target string)) {
	// turns has the queues that are not empty, ordered by the turn of the first of each.
	turns := heap.New(func(p, q *openQueue) bool { return p.first().order(q.first()) < 0 }, nil)
	for class, q := range ts.nowhere {
		if !ts.full[class] {
			turns.Push(q)
		}
	}
	for len(fresh)+turns.Len() > 0 {
		waits := turns.Len() > 0 && (len(fresh) == 0 || turns.First().first().order(fresh[0]) < 0)
		var c *Candidate
		if waits {
			c = turns.First().first()
		} else {
			c, fresh = fresh[0], fresh[1:]
		}
		class, target := c.Kind.Class, ""
		if !ts.full[class] {
			target = plan.Take(c.ID, class)
		}
		switch {
		case target == "" && waits:
			ts.full[class] = true
			turns.Pop()
			continue
		case target == "":
			ts.full[class] = true
			c.target, c.plannedAt = "", time.Time{} // whoever gets it is not late with it from before
			queueOf(ts.nowhere, class).push(c)
			continue
		case waits:
			if q := turns.First(); q.heap.Len() > 1 {
				q.remove(c)
				turns.Fix(0)
			} else {
				turns.Pop()
				q.remove(c)
				delete(ts.nowhere, class)
			}
		}
		place(c, target)
	}
}

// toAgree reports whether to plan everything again once nothing changes any more.
// Claims that are about to be granted to this node will change something, and so will
// what the copy is known to lack.
func (b *Board) toAgree() bool {
	return b.targets.foreign > 0 && !b.targets.agreed && len(b.flights) == 0 && !b.Lag.Behind(b.tasks.Revision())
}

// handedTo returns the node that a candidate was released for, if that node is there to
// take it.
func (b *Board) handedTo(c *Candidate) string {
	t := b.tasks.Get(c.ID)
	if t == nil || t.For == "" {
		return ""
	}
	if t.For == b.self.Name && b.self.Closed == "" {
		return t.For
	}
	if p := b.fleet.Peer(t.For); p != nil && p.Takes(c.Kind.Class) {
		return t.For
	}
	return ""
}
