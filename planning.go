package windlass

import (
	"container/heap"
	"time"

	"github.com/windlass-go/windlass/internal/schedule"
	"github.com/windlass-go/windlass/placement"
)

// planning is what a node knows of who is to have which of the tasks that
// nobody holds. Every node plans for all of them, in the same way.
type planning struct {
	// open counts the candidates that could be claimed, by class; planned are
	// those of them that have a target, by class and node.
	open    map[*placement.Class]int
	planned map[*placement.Class]map[string]int
	// fresh are candidates that could be claimed and that no target was looked for
	// yet.
	fresh map[string]*candidate
	// targeted are those that have one, as a ring.
	targeted candidate
	// foreign counts those whose target is another node and that this node can
	// run.
	foreign int
	// nowhere are those that no node can have now, by class. Those of a class in
	// full need not be asked about before something changes.
	nowhere map[*placement.Class]*openQueue
	full    map[*placement.Class]bool
	// pulled are those that this node takes for calls of Dequeue only, by type.
	pulled map[string]*openQueue
	// dirty tells that something has changed about the cluster that could make
	// the plan another one; stale that it has.
	dirty, stale bool
	// changedAt is when the last change of a task was seen, agreed tells that
	// everything was planned anew since.
	changedAt time.Time
	agreed    bool
	// agreeing tells that it is to be, but for what is planned by names.
	agreeing bool
	// planAt is when everything can be planned anew again, sweepAt when to look
	// for tasks that their target has not claimed.
	planAt, sweepAt time.Time
	// oldest is since when, at the earliest, one of the foreign candidates that are
	// waited for in some way has had its target.
	oldest map[awaited]time.Time
	// busyAt is when this node was last seen to claim something.
	busyAt time.Time
	fleet  *schedule.Fleet
}

// awaited is a way in which candidates are waited for.
type awaited struct {
	// target is the node that should claim them.
	target string
	// gaveBack tells that it is the one that held them last: it has given them back, for
	// others to have first.
	gaveBack bool
}

func (c *candidate) awaited() awaited {
	return awaited{target: c.target, gaveBack: c.target == c.lastOwner}
}

func newPlanning(fleet *schedule.Fleet) *planning {
	p := &planning{
		open: map[*placement.Class]int{}, planned: map[*placement.Class]map[string]int{}, fresh: map[string]*candidate{},
		nowhere: map[*placement.Class]*openQueue{}, full: map[*placement.Class]bool{}, pulled: map[string]*openQueue{},
		oldest: map[awaited]time.Time{}, fleet: fleet,
	}
	p.targeted.next, p.targeted.last = &p.targeted, &p.targeted
	return p
}

// emptied is the same without candidates.
func (p *planning) emptied() *planning {
	e := newPlanning(p.fleet)
	e.dirty, e.stale, e.changedAt, e.agreed, e.agreeing = p.dirty, p.stale, p.changedAt, p.agreed, p.agreeing
	e.planAt, e.sweepAt, e.busyAt = p.planAt, p.sweepAt, p.busyAt
	return e
}

// add takes up a candidate that could be claimed.
func (p *planning) add(c *candidate) {
	if c.open {
		return
	}
	c.open = true
	if c.pulled {
		queueOf(p.pulled, c.kind.Spec.Type).push(c)
		return
	}
	p.open[c.kind.Class]++
	p.fresh[c.id] = c
}

// queueOf finds or makes a queue.
func queueOf[K comparable](queues map[K]*openQueue, of K) *openQueue {
	q := queues[of]
	if q == nil {
		q = &openQueue{}
		queues[of] = q
	}
	return q
}

// remove forgets a candidate that is claimed, gone or not to be claimed now.
func (p *planning) remove(c *candidate) {
	if !c.open {
		return
	}
	c.open = false
	if c.queue != nil {
		c.queue.remove(c)
	}
	if c.pulled {
		return
	}
	p.unassign(c)
	delete(p.fresh, c.id)
	c.target, c.plannedAt = "", time.Time{}
	if q := p.nowhere[c.kind.Class]; q != nil && q.first() == nil {
		delete(p.nowhere, c.kind.Class)
	}
	if p.open[c.kind.Class]--; p.open[c.kind.Class] == 0 {
		delete(p.open, c.kind.Class)
	}
}

// assign makes a node the target of a candidate.
func (p *planning) assign(c *candidate, target string, self string, now time.Time) {
	delete(p.fresh, c.id)
	if c.target != target || c.plannedAt.IsZero() {
		c.plannedAt, c.rank = now, 0 // a target that stays has been waited for already
	}
	c.target, c.planned = target, true
	c.last, c.next = p.targeted.last, &p.targeted
	c.last.next, c.next.last = c, c
	byNode := p.planned[c.kind.Class]
	if byNode == nil {
		byNode = map[string]int{}
		p.planned[c.kind.Class] = byNode
	}
	byNode[target]++
	if c.foreign = target != self && c.ours; c.foreign {
		if p.foreign++; p.foreign == 1 {
			p.sweepAt = now.Add(time.Minute)
			clear(p.oldest)
		}
		p.waitFor(c)
		p.sweepAt = earliest(p.sweepAt, c.plannedAt.Add(rankStep))
	}
}

// waitFor notes since when the target of a candidate is waited for.
func (p *planning) waitFor(c *candidate) {
	if since, ok := p.oldest[c.awaited()]; !ok || c.plannedAt.Before(since) {
		p.oldest[c.awaited()] = c.plannedAt
	}
}

// lateFrom is from when the steps count in which others stand in for a target
// that has had a candidate since some time: while it goes on claiming, or this
// node does, it has much to do.
func (p *planning) lateFrom(a awaited, since time.Time) time.Time {
	from := earliest(later(since, later(p.fleet.ClaimedAt(a.target), p.busyAt)), since.Add(busyMax))
	if !a.gaveBack && !p.fleet.Overdue(a.target) { // or there is no patience left with it
		from = from.Add(patience)
	}
	return from
}

// noneLate tells whether no target can be late with any of its candidates, and
// until when. It does not look at the candidates.
func (p *planning) noneLate(now time.Time) (until time.Time, ok bool) {
	until = now.Add(time.Minute)
	for a, since := range p.oldest {
		until = earliest(until, p.lateFrom(a, since).Add(rankStep))
	}
	return until, until.After(now)
}

// unassign takes its target from a candidate, which remembers it.
func (p *planning) unassign(c *candidate) {
	if !c.planned {
		return
	}
	if c.foreign {
		p.foreign--
	}
	byNode := p.planned[c.kind.Class]
	if byNode[c.target]--; byNode[c.target] == 0 {
		delete(byNode, c.target)
	}
	if len(byNode) == 0 {
		delete(p.planned, c.kind.Class)
	}
	c.last.next, c.next.last = c.next, c.last
	c.last, c.next = nil, nil
	c.planned, c.foreign = false, false
}

// clusterView is the cluster for the planner. shortLived are the types whose tasks end
// about as soon as they have begun.
func (in *incarnation) clusterView(shortLived map[string]bool) placement.View {
	return in.fleet.View(in.info.placed(), in.planning.open, shortLived)
}

// plan makes the plan for this moment, in which what was assigned keeps its
// target. It returns false if some of that is out of date.
func (in *incarnation) plan() (p *placement.Plan, upToDate bool) {
	p, upToDate = placement.New(in.clusterView(in.fleet.ShortLived())), true
	for c, byNode := range in.planning.planned {
		for node, n := range byNode {
			if !p.Given(c, node, n) {
				upToDate = false
			}
		}
	}
	return p, upToDate
}

// planPass gives every candidate that has none a target, and all of them anew
// when the cluster is not what it was. It returns those whose target this node
// has become.
func (in *incarnation) planPass(now time.Time) (mine []*candidate) {
	pl := in.planning
	if len(pl.open) == 0 {
		pl.dirty, pl.stale, pl.agreeing = false, false, false
		clear(pl.full)
		return nil
	}
	if in.toAgree() && now.Sub(pl.changedAt) >= agreeAfter {
		pl.agreeing, pl.agreed = true, true
	}
	if len(pl.fresh) == 0 && !pl.dirty && !pl.mayPlanAnew(now) {
		return nil
	}
	plan, upToDate := in.plan()
	pl.stale = pl.stale || !upToDate
	if pl.mayPlanAnew(now) {
		for c, next := pl.targeted.next, (*candidate)(nil); c != &pl.targeted; c = next {
			next = c.next
			if pl.stale || !c.byName || !plan.ByName(c.kind.Class) || in.handedTo(c) != "" {
				pl.unassign(c)
				pl.fresh[c.id] = c
			}
		}
		plan, _ = in.plan()
		pl.stale, pl.agreeing, pl.planAt, pl.dirty = false, false, now.Add(in.replanPause()), true
	}
	if pl.dirty {
		clear(pl.full)
	}
	pl.dirty = false
	place := func(c *candidate, target string) {
		if pl.assign(c, target, in.config.Name, now); target == in.config.Name {
			mine = append(mine, c)
		}
	}
	for _, c := range pl.fresh {
		if target := in.handedTo(c); target != "" {
			plan.Given(c.kind.Class, target, 1)
			c.byName = false
			place(c, target)
		} else {
			queueOf(pl.nowhere, c.kind.Class).push(c)
		}
	}
	pl.pour(plan, func(c *candidate, target string) {
		c.byName = plan.ByName(c.kind.Class)
		place(c, target)
	})
	for _, c := range pl.fresh {
		if c.queue != nil {
			c.target, c.plannedAt = "", time.Time{} // whoever gets it is not late with it from before
		}
	}
	clear(pl.fresh)
	return mine
}

// mayPlanAnew tells whether what has a target is to be given one anew now.
func (p *planning) mayPlanAnew(now time.Time) bool {
	return (p.stale || p.agreeing) && !now.Before(p.planAt)
}

// replanPause is how long a plan lasts: the more there is to plan and the more nodes
// do it, the less it gains to do it again.
func (in *incarnation) replanPause() time.Duration {
	open := 0
	for _, n := range in.planning.open {
		open += n
	}
	return min(max(replanEvery, time.Duration(open*in.fleet.Size())*replanCost), replanMax)
}

// pour gives those that wait to the nodes that have room, each in its turn, until
// there is room for none.
func (p *planning) pour(plan *placement.Plan, place func(c *candidate, target string)) {
	turns := make(queueHeap, 0, len(p.nowhere))
	for class, q := range p.nowhere {
		if !p.full[class] {
			turns = append(turns, q)
		}
	}
	heap.Init(&turns)
	for len(turns) > 0 {
		q := turns[0]
		c := q.first()
		target := plan.Take(c.id, c.kind.Class)
		if target == "" {
			p.full[c.kind.Class] = true
			heap.Pop(&turns)
			continue
		}
		q.remove(c)
		place(c, target)
		if q.first() != nil {
			heap.Fix(&turns, 0)
			continue
		}
		heap.Pop(&turns)
		delete(p.nowhere, c.kind.Class)
	}
}

// toAgree tells whether everything is to be planned anew once nothing changes any
// more. What this node is about to be granted will change something.
func (in *incarnation) toAgree() bool {
	return in.planning.foreign > 0 && !in.planning.agreed && len(in.inFlight) == 0
}

// handedTo is the node that a candidate was released for, if that is there to
// take it.
func (in *incarnation) handedTo(c *candidate) string {
	t := in.tasks.Get(c.id)
	if t == nil || t.For == "" {
		return ""
	}
	if t.For == in.config.Name && in.info.closed() == "" {
		return t.For
	}
	if p, there := in.fleet.Peer(t.For); there && p.Takes(c.kind.Class) {
		return t.For
	}
	return ""
}

// sweep finds the tasks that their target should have claimed by now and has
// not, and whose turn it is for this node: it may be about to die, or its
// balancer may refuse them. While a node goes on claiming it has much to do.
func (in *incarnation) sweep(now time.Time) (turn []*candidate) {
	pl := in.planning
	if pl.foreign == 0 || now.Before(pl.sweepAt) {
		return nil
	}
	if in.info.closed() != "" {
		pl.sweepAt = now.Add(time.Second)
		return nil
	}
	if len(in.inFlight) > in.standIns.flying {
		// Whoever has claims of its own under way cannot say that others are late:
		// theirs stand in the same queue.
		pl.busyAt = now
	}
	if until, ok := pl.noneLate(now); ok {
		pl.sweepAt = until
		return nil
	}
	if !in.mayStandIn() {
		pl.sweepAt = now.Add(time.Second) // or as soon as an answer or an update makes room
		return nil
	}
	nodes := in.fleet.Nodes(in.info.placed())
	next := now.Add(time.Minute)
	clear(pl.oldest)
	for c := pl.targeted.next; c != &pl.targeted; c = c.next {
		if !c.foreign {
			continue
		}
		pl.waitFor(c)
		if c.refusedUntil.After(now) {
			next = earliest(next, c.refusedUntil)
			continue
		}
		if t := in.tasks.Get(c.id); t != nil && in.fleet.Braked(t.Last, now) {
			next = earliest(next, now.Add(time.Second)) // its target has the brake on as well
			continue
		}
		from := pl.lateFrom(c.awaited(), c.plannedAt)
		at := from.Add(rankStep)
		if !at.After(now) {
			if c.rank == 0 {
				c.rank = placement.Rank(c.id, c.kind.Class, nodes, c.target, in.config.Name)
			}
			at = from.Add(time.Duration(min(c.rank, ranksMax)) * rankStep)
		}
		if !at.After(now) {
			turn, at = append(turn, c), now.Add(rankStep)
		}
		next = earliest(next, at)
	}
	pl.sweepAt = next
	return turn
}

// earliest is the earlier of two times.
func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// room tells whether this node's capacity leaves room for a candidate.
func (in *incarnation) room(c *candidate) bool {
	limit := in.info.Capacity
	return limit == 0 || in.fleet.HeldBy(in.config.Name).Weight+c.kind.Class.Weight <= limit
}
