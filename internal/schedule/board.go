package schedule

import (
	"slices"
	"time"

	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// Board has the tasks that no node holds, and decides which of them this node claims.
//
// A task that the copy shows without an owner is a candidate, unless this node is
// claiming it: then it is in flight until its Landed is called, once.
type Board struct {
	fleet *Fleet
	tasks *mirror.Tasks
	rules Rules
	// self is this node as of the last Pass.
	self placement.Node

	candidates candidates
	targets    *targets
	standIns   standIns
	// flights are the candidates whose claims are queued or in flight. flightsMost is
	// the largest number of them since there were none.
	flights     map[string]*Candidate
	flightsMost int
	// holds has the tasks that this node leaves to others until a time.
	holds map[string]time.Time
	// loadFell is set when a claim of this node has ended since the last pass.
	loadFell bool

	// Lag is how far the copy lags behind.
	Lag Lag
}

// Rules are a board's callbacks to its node. They must not block.
type Rules struct {
	// Held reports whether the node already holds a task, or knows that the copy is too
	// old to tell.
	Held func(id string) bool
	// Apart returns the time before which a task is to be left alone because its last run
	// may have killed its node, zero for any other task.
	Apart func(t *mirror.Task, now time.Time) time.Time
	// LeftBehind reports whether an earlier handler of a task has not returned.
	LeftBehind func(id string) bool
	// Read reads a task. It returns false if the node leaves the task to others without
	// knowing whether they take it.
	Read func(t *mirror.Task) (Reading, bool)
	// Balancer returns a function that asks the balancer about each task whose turn it
	// is in one pass. If the balancer refuses the task, again is when to ask again;
	// zero means after a second. A task that it accepts is claimed.
	Balancer func(now time.Time) func(c *Candidate) (ok bool, again time.Time)
}

// NewBoard returns the board of a node. tasks is its copy; the caller reports its
// changes by Changed.
func NewBoard(fleet *Fleet, tasks *mirror.Tasks, rules Rules) *Board {
	return &Board{
		fleet: fleet, tasks: tasks, rules: rules, candidates: newCandidates(), targets: newTargets(fleet), standIns: standIns{window: 1},
		flights: map[string]*Candidate{}, holds: map[string]time.Time{},
	}
}

const (
	// retryAfter is the delay before a claim that failed at the broker is retried.
	retryAfter = 500 * time.Millisecond
	// reconsiderEvery is the shortest time between two reviews of all refused tasks
	// that the end of runs can cause.
	reconsiderEvery = 100 * time.Millisecond
	// heldFor is how long a task that this node has given back is left to others.
	heldFor = 2 * time.Second
	// limboMax is the longest time for which a task counts as the load of the node that held
	// it last, if it may not be claimed yet and is not kept for that node. It would count
	// nowhere meanwhile, and others would give that node what they have. A suspect of a death,
	// which is to run elsewhere, waits longer.
	limboMax = time.Second
	// againDefault is the delay before a task that cannot be claimed for now is checked
	// again.
	againDefault = time.Second
)

// Changed updates the board for one task of the copy.
func (b *Board) Changed(id string, now time.Time) {
	t := b.tasks.Get(id)
	if t == nil {
		delete(b.holds, id)
	}
	if t == nil || !t.HasKey {
		b.candidates.freed(id, b.tasks)
	}
	if c := b.flights[id]; c != nil {
		c.changed = true
	}
	switch {
	case t == nil || t.Owned():
		if c := b.candidates.byID[id]; c != nil && t != nil {
			// Only nodes are waited for: the name of a script that takes tasks with
			// a lease would be kept for ever.
			if b.fleet.Peer(t.Owner) != nil {
				b.fleet.SeenToClaim(t.Owner, now)
			}
			b.claimedBy(c, t.Owner)
		}
		b.drop(id)
	case !b.busy(id):
		// A task that could not be read, or was ignored, may have been fixed. A task
		// that was claimed and released again within one batch is free again.
		if c := b.Add(t, now); b.candidates.believe(c) || !c.read {
			b.candidates.lookSoon(c)
		}
	}
}

// Relisted reports that the copy has been listed again: it may have missed changes. It
// must be called before Changed.
func (b *Board) Relisted() { b.candidates.believeAll() }

// Shown reports that the copy has applied an update, and whether that changed a task.
// It must be called after Changed.
func (b *Board) Shown(changed bool, now time.Time) {
	b.Lag.Shown(b.tasks.Revision(), now)
	b.standAgain()
	if changed {
		b.targets.dirty, b.targets.agreed, b.targets.changedAt = true, false, now
	}
}

// Add makes a task a candidate, to be checked in the next pass, unless it is one
// already.
func (b *Board) Add(t *mirror.Task, now time.Time) *Candidate {
	if c := b.candidates.byID[t.ID]; c != nil && c.Created == t.Created && c.Modified == t.Modified() {
		return c
	}
	b.drop(t.ID)
	c := &Candidate{ID: t.ID, Created: t.Created, Modified: t.Modified(), lastOwner: t.Last, seen: now, Since: now}
	b.candidates.byID[t.ID] = c
	b.candidates.lookSoon(c)
	return c
}

// drop forgets a candidate.
func (b *Board) drop(id string) {
	c := b.candidates.byID[id]
	if c == nil {
		return
	}
	b.keep(c, "")
	b.targets.remove(c)
	b.candidates.drop(c)
	if b.candidates.emptied() {
		b.candidates = newCandidates()
		b.targets.reset()
	}
}

// Reconsider checks everything that could be claimed again: this node or the others
// have changed.
func (b *Board) Reconsider() {
	for _, c := range b.candidates.byID {
		refusedUntil := c.refusedUntil
		c.refusedUntil, c.rank = time.Time{}, 0
		if c.open || !refusedUntil.IsZero() {
			b.candidates.lookSoon(c)
		}
	}
	b.targets.dirty, b.targets.stale = true, true
	b.candidates.refusedByBalancer = false
}

// FleetChanged checks everything again because the set of nodes that take tasks has
// changed. A node that is gone claims none of its tasks, and a new node may be the one
// that a task was released for.
func (b *Board) FleetChanged() {
	b.Reconsider()
	b.lookAgain(func(t *mirror.Task) bool { return t.For != "" })
	b.targets.planAt = time.Time{}
}

// LifetimesChanged makes the board plan new candidates with another set of short-lived
// types. Unless a capacity prevents it, candidates keep their targets until nothing
// changes any more. The other nodes have the same targets, and see the change of types
// at other times.
func (b *Board) LifetimesChanged(now time.Time) {
	b.targets.dirty, b.targets.agreed, b.targets.changedAt = true, false, now
}

// Back checks the tasks again that were kept for a node that is back, or will not be.
func (b *Board) Back(node string) {
	b.lookAgain(func(t *mirror.Task) bool { return t.Last == node })
}

// Look checks some tasks again, by ID.
func (b *Board) Look(ids []string) {
	for _, id := range ids {
		if c := b.candidates.byID[id]; c != nil {
			b.candidates.lookSoon(c)
		}
	}
}

// lookAgain checks some of the tasks again that could not be claimed so far.
func (b *Board) lookAgain(at func(t *mirror.Task) bool) {
	for id, c := range b.candidates.byID {
		if t := b.tasks.Get(id); !c.open && t != nil && at(t) {
			b.candidates.lookSoon(c)
		}
	}
}

// RoomChanged checks the unplaced tasks again, if there are any: a handler has returned
// here, which the copy shows later, or never.
func (b *Board) RoomChanged() {
	if len(b.targets.nowhere) > 0 {
		b.targets.dirty = true
	}
}

// LoadFell reports that a claim of this node has ended: its balancer may now accept
// what it refused.
func (b *Board) LoadFell() { b.loadFell = true }

// Hold leaves a task to others for a while, so that this node does not immediately
// claim what it has just given back.
func (b *Board) Hold(id string, now time.Time) { b.holds[id] = now.Add(heldFor) }

// Pass checks every candidate that is due, plans the targets, and returns the
// candidates to claim, the most important first. self is this node.
func (b *Board) Pass(self placement.Node, now time.Time) (claims []*Candidate) {
	b.self = self
	if b.candidates.refusedByBalancer && b.loadFell && !now.Before(b.candidates.retryAt) {
		b.Reconsider()
	}
	b.loadFell = b.loadFell && b.candidates.refusedByBalancer // kept if it was too early to reconsider
	var mine []*Candidate                                     // those whose target was this node before
	for _, c := range b.candidates.popDue(now) {
		if !b.look(c, now) {
			continue
		}
		if c.Pulled && c.Skipped != "" {
			claims = append(claims, b.claim(c)) // to end it, which needs no balancer
			continue
		}
		if c.planned && c.target == self.Name {
			mine = append(mine, c)
		}
	}
	turn := b.planPass(now)
	for _, c := range mine {
		if c.planned && c.target == self.Name {
			turn = append(turn, c)
		}
	}
	turn = append(turn, b.sweep(now)...)
	if len(turn) == 0 {
		return claims
	}
	slices.SortFunc(turn, (*Candidate).order)
	ask := b.rules.Balancer(now)
	for _, c := range slices.Compact(turn) { // one may have been planned anew as well
		switch {
		case !c.open || c.refusedUntil.After(now):
		case c.target != self.Name && !b.mayStandIn():
		case b.mayTake(c, now) && b.consider(c, ask, now):
			claims = append(claims, b.claim(c))
		}
	}
	return claims
}

// Pull returns the candidates to claim for a number of waiting calls of Dequeue of a
// type.
func (b *Board) Pull(taskType string, calls int, now time.Time) (claims []*Candidate) {
	queue := b.targets.pulled[taskType]
	for wanted := calls - b.fleet.UnderWay(taskType); wanted > 0; {
		c := queue.first()
		if c == nil {
			break
		}
		if !b.mayTake(c, now) {
			b.targets.remove(c) // it is checked again when it may be claimed
			continue
		}
		claims = append(claims, b.claim(c))
		wanted--
	}
	return claims
}

// look reports whether only rank and balance can prevent the claim. If something else
// does, it schedules the next check.
func (b *Board) look(c *Candidate, now time.Time) bool {
	t := b.tasks.Get(c.ID)
	if t == nil || t.Owned() || b.busy(c.ID) {
		b.drop(c.ID)
		return false
	}
	if !c.read {
		b.targets.remove(c) // its class may be another one
		if c.Reading, c.read = b.rules.Read(t); !c.read {
			return false
		}
	}
	a := c.Kind.Claimable(t, c.Blockers, b.tasks, now)
	c.Skipped, c.SkippedAt = a.Skipped, a.SkippedAt
	b.candidates.wait(c, a.WaitsFor)
	keptFor := ""
	if a.Open {
		reserved := b.reservedUntil(t, c.seen, now)
		a.Until = later(reserved, b.rules.Apart(t, now))
		a.Open = !a.Until.After(now)
		if kept := reserved.After(now) || a.Until.Sub(now) <= limboMax; !a.Open && kept && !c.Pulled && b.fleet.counts(t.Last) {
			keptFor = t.Last
		}
	}
	b.keep(c, keptFor)
	switch {
	case !a.Open:
		b.targets.remove(c)
		if !a.Until.IsZero() {
			b.candidates.lookAt(c, a.Until)
		}
		return false
	case !c.open:
		if c.refusedUntil.IsZero() {
			c.Since = now // claimable only from now on
		}
		b.targets.add(c)
	}
	return true
}

// reservedUntil returns until when a task is left to the node that it was released for,
// or that held it last; a past time means not at all. seen is when it was first seen
// without an owner.
func (b *Board) reservedUntil(t *mirror.Task, seen, now time.Time) time.Time {
	if t.For == "" {
		return b.fleet.ReservedUntil(t.Last, seen, now)
	}
	if t.For == b.self.Name || b.fleet.Peer(t.For) != nil {
		return time.Time{} // the plan says whose it is
	}
	return seen.Add(RankStep) // it may have just come: whoever released the task knows of it
}

// keep counts a candidate as the load of the node that it is kept for, if any.
func (b *Board) keep(c *Candidate, node string) {
	if c.keptFor == node {
		return
	}
	if c.keptFor != "" {
		b.fleet.Hold(c.keptFor, c.Kind.Class, -1)
	}
	if c.keptFor = node; node != "" {
		b.fleet.Hold(node, c.Kind.Class, 1)
	}
}

// mayTake reports whether this node may claim a candidate now; if not, it schedules the
// next check.
func (b *Board) mayTake(c *Candidate, now time.Time) bool {
	if b.rules.LeftBehind(c.ID) {
		b.candidates.lookAt(c, now.Add(retryAfter))
		return false
	}
	until := later(b.holds[c.ID], b.rules.Apart(b.tasks.Get(c.ID), now)) // another suspect may have been claimed just now
	if until.After(now) {
		b.candidates.lookAt(c, until)
		return false
	}
	delete(b.holds, c.ID)
	return true
}

// busy reports whether this node holds a task, is claiming it, or cannot tell.
func (b *Board) busy(id string) bool { return b.flights[id] != nil || b.rules.Held(id) }

// consider reports whether to claim a candidate whose turn it is here, or schedules the
// next check.
func (b *Board) consider(c *Candidate, ask func(*Candidate) (bool, time.Time), now time.Time) bool {
	again, ok := now.Add(againDefault), c.Ours && b.room(c) && b.fleet.MayClaim(c.Kind.Class.Type)
	if ok {
		again, ok = b.fleet.Slot(b.tasks.Get(c.ID).Last, &c.slot, now)
	}
	if ok {
		if ok, again = ask(c); again.IsZero() {
			again = now.Add(againDefault)
		}
		if !ok {
			b.refused(c, again, now)
		}
	}
	if !ok {
		// A balancer that returns a past time must not make the loop spin.
		b.candidates.lookAt(c, later(again, now.Add(time.Millisecond)))
	}
	return ok
}

// refused records that the balancer refuses a candidate until a time.
func (b *Board) refused(c *Candidate, until, now time.Time) {
	c.refusedUntil = until
	if b.fleet.Limited(c.Kind.Class.Type) || b.self.Capacity > 0 {
		b.targets.remove(c) // or it would keep the place of one that is not refused
		b.targets.dirty = true
	}
	if !b.candidates.refusedByBalancer {
		b.candidates.refusedByBalancer, b.candidates.retryAt = true, now.Add(reconsiderEvery)
	}
}

// room reports whether this node's capacity has room for a candidate.
func (b *Board) room(c *Candidate) bool {
	limit := b.self.Capacity
	return limit == 0 || b.fleet.HeldBy(b.self.Name).Weight+c.Kind.Class.Weight <= limit
}

// claim turns a candidate into a flight.
func (b *Board) claim(c *Candidate) *Candidate {
	if c.target != b.self.Name && !c.Pulled {
		c.InsteadOf = c.target
		b.fleet.StoodInFor(c.target)
		b.standIns.inFlight++
	}
	b.flights[c.ID] = c
	b.fleet.Claiming(c.Kind.Class.Type, 1)
	if !c.Pulled {
		b.fleet.Hold(b.self.Name, c.Kind.Class, 1)
	}
	b.drop(c.ID)
	return c
}

// Answer is the outcome of a flight.
type Answer uint8

// The answers.
const (
	// Granted: this node has the task.
	Granted Answer = iota + 1
	// Taken: another node has it, or it is gone.
	Taken
	// Changed: it is not what the copy showed when it was claimed.
	Changed
	// Failed: it was refused, or the claim could not be made, for another reason.
	Failed
	// Withdrawn: the claim was not sent.
	Withdrawn
)

// Landed ends a flight and returns it, nil if there is none with that ID.
func (b *Board) Landed(id string, a Answer) *Candidate {
	c := b.flights[id]
	if c == nil {
		return nil
	}
	delete(b.flights, id)
	b.fleet.Claiming(c.Kind.Class.Type, -1)
	if c.InsteadOf != "" {
		b.standIns.answered(a)
	}
	if !c.Pulled {
		b.fleet.Hold(b.self.Name, c.Kind.Class, -1)
	}
	b.targets.dirty = true // there is room again for one that had none, unless it runs
	if b.flightsMost = max(b.flightsMost, len(b.flights)+1); len(b.flights) == 0 && b.flightsMost > shrinkFrom {
		b.flights, b.flightsMost = map[string]*Candidate{}, 0
	}
	b.standAgain()
	return c
}

// Refused schedules another check of a task whose claim was refused and that the copy
// shows without an owner. was is its flight, nil if no claim of it was sent.
func (b *Board) Refused(t *mirror.Task, was *Candidate, a Answer, now time.Time) {
	c := b.Add(t, now)
	switch {
	case was != nil && a == Changed && c.Modified != was.Modified: // its current content is known already
	case was != nil && a == Taken && !was.changed:
		// The copy lags: it will soon show what happened to the task, and until
		// then the answer stays the same.
		b.candidates.doubt(c, now.Add(busyMax))
	default:
		b.candidates.lookAt(c, now.Add(retryAfter))
	}
}

// Wake returns when a Pass has something to do, zero if not before something changes.
func (b *Board) Wake(now time.Time) (at time.Time) {
	ts := b.targets
	at = b.candidates.next()
	if ts.stale || ts.agreeing {
		at = soonest(at, later(ts.planAt, longAgo))
	}
	if ts.foreign > 0 {
		at = soonest(at, later(ts.sweepAt, longAgo))
	}
	if ts.dirty && len(ts.nowhere) > 0 {
		at = soonest(at, now) // a place was given up after everything was planned
	}
	if b.toAgree() {
		at = soonest(at, ts.changedAt.Add(agreeAfter))
	}
	if b.candidates.refusedByBalancer && b.loadFell {
		at = soonest(at, b.candidates.retryAt)
	}
	return at
}

// longAgo is a past time: zero stands for never.
var longAgo = time.Unix(0, 0)

// Waiting reports whether any candidate is scheduled for a check.
func (b *Board) Waiting() bool { return !b.candidates.next().IsZero() }

// IsFlight reports whether the claim of a task is queued or in flight.
func (b *Board) IsFlight(id string) bool { return b.flights[id] != nil }

// Len returns how many tasks no node holds, without those in flight.
func (b *Board) Len() int { return len(b.candidates.byID) }

// InFlight returns how many claims are queued or in flight.
func (b *Board) InFlight() int { return len(b.flights) }

// Recount adds the tasks in flight, and those that are kept for a node, to a tally that starts
// again, without those for calls of Dequeue.
func (b *Board) Recount() {
	for _, c := range b.candidates.byID {
		if c.keptFor != "" {
			b.fleet.Hold(c.keptFor, c.Kind.Class, 1)
		}
	}
	for _, c := range b.flights {
		if !c.Pulled {
			b.fleet.Hold(b.self.Name, c.Kind.Class, 1)
		}
	}
}

// Foreign returns how many tasks that this node could run other nodes are to claim.
func (b *Board) Foreign() int { return b.targets.foreign }

// Open returns the number of tasks that could be claimed, by class. The caller must not
// modify it.
func (b *Board) Open() map[*placement.Class]int { return b.targets.open }

// Assigned counts the open tasks by class and the node that is to claim them. The caller must not
// modify it.
func (b *Board) Assigned() map[*placement.Class]map[string]int { return b.targets.planned }
