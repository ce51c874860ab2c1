package windlass

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/mirror"
)

// candidate is a task that nobody holds, as this node sees it.
type candidate struct {
	id string
	// created and modified are the revisions at which the task came to exist and
	// was changed last.
	created, modified broker.Revision
	kind              *taskKind
	// lastOwner is the node that held it last, empty if that is not known.
	lastOwner string
	// seen is when this node first saw it without an owner, since is when it
	// first saw it claimable.
	seen, since time.Time

	// soon tells that it is to be looked at in the next pass.
	soon bool
	// doubted tells that it was refused as owned or gone, and that the copy does not show
	// that yet.
	doubted bool
	// changed tells that the copy has shown a change of it while it was being claimed.
	changed bool
	// prepared tells that the fields below are filled in.
	prepared bool
	task     Task
	blockers []string
	// ours tells that this node may run it: it has a handler for it, and whatever
	// else the task asks for.
	ours bool

	// adopted tells that the claim on it turned up, and that nobody knows any more
	// what it was made for.
	adopted bool
	// skipped is the task whose failure is why this one is to be killed, empty for
	// none.
	skipped string
	// skippedAt is the revision at which that was marked.
	skippedAt broker.Revision

	// pulled tells that this node takes it only for a call of Dequeue.
	pulled bool
	// queue is where it waits for someone with room, nil if it does not, and place
	// its place there. next and last link those that have a target.
	queue      *openQueue
	place      int
	next, last *candidate

	// open tells that nothing but rank and balance speaks against claiming it;
	// planned that it has a target, foreign that this is another node although
	// this one could run it, and plannedAt since when.
	open, planned, foreign bool
	target                 string
	plannedAt              time.Time
	// byName tells that its target was chosen by names, so that nodes which have seen other
	// tasks choose the same. rank is this node's place among those that stand in for the
	// target, zero while that is not known.
	byName bool
	rank   int
	// standIn tells that it is being claimed although another node should have it.
	standIn bool
	// slot is the time that the brake has given it, zero for none; refusedUntil
	// is when the balancer wants to be asked again.
	slot, refusedUntil time.Time
	// reason is why it is claimed, for people; cause is that in one word, and from
	// the node that held it before.
	reason string
	cause  GrantCause
	from   string
}

// candidates are all of them, with when to look at each again.
type candidates struct {
	byID map[string]*candidate
	// soon are those to be looked at in the next pass, with some that are not any
	// more; due says when to look at others. Most wait for nothing, and a heap
	// of them all would cost more than everything else about them.
	soon []*candidate
	due  timeQueue
	// doubts is how many of them the broker knows of what the copy does not show yet.
	doubts int
	// waiters are the candidates that wait for a task to go, by that task.
	waiters map[string]map[string]struct{}
	// balked tells that the balancer refused some since it was last asked
	// about all of them, at retryAt at the earliest.
	balked  bool
	retryAt time.Time
	// most is how many there have been since there were none.
	most int
}

func newCandidates() candidates {
	return candidates{byID: map[string]*candidate{}, waiters: map[string]map[string]struct{}{}}
}

// addCandidate makes a task a candidate, to be looked at now, unless it is one
// already.
func (in *incarnation) addCandidate(t *mirror.Task, now time.Time) *candidate {
	if c := in.candidates.byID[t.ID]; c != nil && c.created == t.Created && c.modified == t.Modified() {
		return c
	}
	in.dropCandidate(t.ID)
	c := &candidate{id: t.ID, created: t.Created, modified: t.Modified(), kind: in.kinds.OfTask(t), lastOwner: t.Last, seen: now, since: now}
	in.candidates.byID[t.ID] = c
	in.candidates.lookSoon(c)
	return c
}

// lookSoon has a candidate looked at in the next pass.
func (cs *candidates) lookSoon(c *candidate) {
	if c.soon {
		return
	}
	if len(cs.soon) > 2*len(cs.byID)+shrinkFrom {
		// A node that is frozen sees tasks come and go and looks at none.
		cs.soon = slices.DeleteFunc(cs.soon, func(c *candidate) bool { return !c.soon })
	}
	c.soon = true
	cs.soon = append(cs.soon, c)
}

// lookAt has a candidate looked at when it is time, and not before.
func (cs *candidates) lookAt(c *candidate, at time.Time) {
	c.soon = false
	cs.due.set(c.id, at)
}

// doubt has a candidate that was refused as owned or gone looked at when the copy shows
// what has become of it, or at some time at the latest.
func (cs *candidates) doubt(c *candidate, until time.Time) {
	if !c.doubted {
		c.doubted = true
		cs.doubts++
	}
	cs.lookAt(c, until)
}

// believe takes a doubt back, and tells whether there was one.
func (cs *candidates) believe(c *candidate) bool {
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
func (cs *candidates) popDue(now time.Time) []*candidate {
	due := make([]*candidate, 0, len(cs.soon))
	for _, c := range cs.soon {
		if c.soon {
			c.soon = false
			due = append(due, c)
		}
	}
	cs.soon = nil
	for _, id := range cs.due.popDue(now) {
		if c := cs.byID[id]; c != nil {
			cs.believe(c)
			due = append(due, c)
		}
	}
	return due
}

// next is when to look at one of them.
func (cs *candidates) next() time.Time {
	if len(cs.soon) > 0 {
		return cs.soon[0].seen // which is in the past
	}
	return cs.due.next()
}

func (in *incarnation) dropCandidate(id string) {
	cs := &in.candidates
	c := cs.byID[id]
	if c == nil {
		return
	}
	in.planning.remove(c)
	for _, b := range c.blockers {
		if delete(cs.waiters[b], id); len(cs.waiters[b]) == 0 {
			delete(cs.waiters, b)
		}
	}
	delete(cs.byID, id)
	c.soon = false
	cs.due.remove(id)
	cs.believe(c)
	if cs.most = max(cs.most, len(cs.byID)+1); len(cs.byID) == 0 && cs.most > shrinkFrom {
		// Maps keep the size that they had, and a node may look at a hundred
		// thousand tasks once and at none ever after.
		in.candidates, in.planning = newCandidates(), in.planning.emptied()
	}
}

// shrinkFrom is how many candidates there must have been for their maps to be
// given up when none is left.
const shrinkFrom = 1000

// wait notes that a candidate waits for a task to go.
func (cs *candidates) wait(id, blocker string) {
	if cs.waiters[blocker] == nil {
		cs.waiters[blocker] = map[string]struct{}{}
	}
	cs.waiters[blocker][id] = struct{}{}
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

// reconsider looks again at all that could be claimed: the cluster changed.
func (in *incarnation) reconsider() {
	for _, c := range in.candidates.byID {
		refusedUntil := c.refusedUntil
		c.refusedUntil, c.rank = time.Time{}, 0
		if c.open || !refusedUntil.IsZero() {
			in.candidates.lookSoon(c)
		}
	}
	in.planning.dirty, in.planning.stale = true, true
	in.candidates.balked = false
}

// reconsiderEvery bounds how often the end of a run makes a node look again at
// everything that its balancer refused.
const reconsiderEvery = 100 * time.Millisecond

// claimPass looks at every candidate that is due, plans who is to have what, and
// claims those that this node should have, the most important first.
func (in *incarnation) claimPass(now time.Time) {
	if in.candidates.balked && in.loadFell && !now.Before(in.candidates.retryAt) {
		in.reconsider()
	}
	in.loadFell = in.loadFell && in.candidates.balked // too early to look again is not in vain
	var looked []*candidate
	for _, c := range in.candidates.popDue(now) {
		if !in.look(c, now) {
			continue
		}
		if c.pulled && c.skipped != "" {
			in.claim(c, now) // to end it, which nobody needs to ask for
			continue
		}
		looked = append(looked, c)
	}
	turn := in.planPass(now)
	for _, c := range looked {
		if c.planned && c.target == in.config.Name {
			turn = append(turn, c)
		}
	}
	turn = append(turn, in.sweep(now)...)
	if len(turn) == 0 {
		return
	}
	slices.SortFunc(turn, (*candidate).order)
	view := in.view(now)
	for _, c := range slices.Compact(turn) { // one may have been planned anew as well
		switch {
		case !c.open || c.refusedUntil.After(now):
		case c.target != in.config.Name && !in.mayStandIn():
		case in.mayTake(c, now):
			in.consider(c, view)
		}
	}
}

// look tells whether nothing but rank and balance speaks against claiming. If
// something does, it arranges for when to look again.
func (in *incarnation) look(c *candidate, now time.Time) bool {
	t := in.tasks.Get(c.id)
	if t == nil || t.Owned() || in.busyWith(c.id) {
		in.dropCandidate(c.id)
		return false
	}
	if !c.prepared && !in.prepare(c, t) {
		in.planning.remove(c)
		return false
	}
	until, open := in.claimableFrom(c, t, now)
	switch {
	case !open:
		in.planning.remove(c)
		if !until.IsZero() {
			in.candidates.lookAt(c, until)
		}
		return false
	case !c.open:
		if c.refusedUntil.IsZero() {
			c.since = now // claimable only from now on
		}
		in.planning.add(c)
	}
	return true
}

// claimableFrom tells whether a candidate could be claimed by any node, be it to run or to
// be killed; if not, until when it cannot, zero for until something changes.
func (in *incarnation) claimableFrom(c *candidate, t *mirror.Task, now time.Time) (until time.Time, open bool) {
	a := c.kind.Claimable(t, c.blockers, in.tasks, now)
	if c.skipped, c.skippedAt = a.Skipped, a.SkippedAt; a.Waits {
		// For all of them: one that is not there now may be submitted and fail while
		// another one is waited for.
		for _, b := range c.blockers {
			in.candidates.wait(c.id, b)
		}
	}
	if !a.Open {
		return a.Until, false
	}
	if t.For == "" {
		if until := in.fleet.ReservedUntil(t.Last, c.seen, now); until.After(now) {
			return until, false
		}
	}
	return time.Time{}, true
}

// mayTake tells whether this node may claim a candidate now; if not, it arranges
// for when to look again.
func (in *incarnation) mayTake(c *candidate, now time.Time) bool {
	if in.node.isLeftBehind(c.id) {
		in.candidates.lookAt(c, now.Add(retryClaim))
		return false
	}
	if until := in.holds[c.id]; until.After(now) {
		in.candidates.lookAt(c, until)
		return false
	}
	delete(in.holds, c.id)
	return true
}

// busyWith tells whether this node holds a task, is claiming it, is asking whether it
// holds it, or knows that the copy is too old to say anything about it.
func (in *incarnation) busyWith(id string) bool {
	return in.runs[id] != nil || in.inFlight[id] != nil || in.out.adopts.UnderWay(id) || in.endedSince(id)
}

// endedSince tells whether this node has held a task and is done with it, all after what
// its copy shows.
func (in *incarnation) endedSince(id string) bool { return in.tombs[id] > in.tasks.Revision() }

// prepare reads what a task is. It returns false if this node leaves it to
// others without knowing whether they take it.
func (in *incarnation) prepare(c *candidate, t *mirror.Task) bool {
	in.planning.remove(c) // its class may be another one
	c.kind = in.kinds.OfTask(t)
	if c.kind.Err != nil {
		in.events.Corrupt(in.node.space.Task(c.id), c.kind.Err)
		return false
	}
	self := in.info.placed()
	self.Types, self.Pulls = []string{c.kind.Spec.Type}, nil
	eligible := self.Excludes(c.kind.Class) == ""
	c.ours = eligible && in.config.handler(c.kind.Spec.Type) != nil
	c.pulled = eligible && in.config.pulls(c.kind.Spec.Type)
	c.task = plainTask(c.id)
	if in.config.NewTask != nil && in.config.runs(c.kind.Spec.Type) {
		var err error
		if c.task, err = safeNewTask(in.config.NewTask, c.id, t.Props()); err != nil {
			in.events.Corrupt(in.node.space.Props(c.id), err)
		}
		if c.task == nil {
			return false
		}
	}
	var err error
	if c.blockers, err = c.kind.Blockers(t); err != nil {
		in.events.Corrupt(in.node.space.Task(c.id), err)
		return false
	}
	c.prepared = true
	return true
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

// consider claims a candidate whose turn it is here, or arranges for when to
// look again.
func (in *incarnation) consider(c *candidate, view *View) {
	again, ok := view.Now.Add(time.Second), c.ours && in.room(c) && in.fleet.MayClaim(c.kind.Spec.Type)
	if ok {
		again, ok = in.fleet.Slot(in.tasks.Get(c.id).Last, &c.slot, view.Now)
	}
	if ok {
		ok, again = in.config.Balancer.CanClaim(view, Candidate{Task: c.task, Spec: c.kind.Spec, Waiting: view.Now.Sub(c.since)})
		if again.IsZero() {
			again = view.Now.Add(time.Second)
		}
		if !ok {
			c.refusedUntil = again
		}
		if !ok && (in.fleet.Limited(c.kind.Spec.Type) || in.info.Capacity > 0) {
			in.planning.remove(c) // or it would keep the place of one that is not refused
			in.planning.dirty = true
		}
		if !ok && !in.candidates.balked {
			in.candidates.balked, in.candidates.retryAt = true, view.Now.Add(reconsiderEvery)
		}
	}
	if !ok {
		// A balancer that names the past must not make the loop spin.
		in.candidates.lookAt(c, later(again, view.Now.Add(time.Millisecond)))
		return
	}
	view.Self.Tasks++
	view.Unowned--
	in.claim(c, view.Now)
}

// claim queues the claim on a candidate.
func (in *incarnation) claim(c *candidate, now time.Time) {
	if c.target != in.config.Name && !c.pulled {
		in.force(c.id, c.kind.Spec.Type, c.target, now)
		in.fleet.StoodInFor(c.target)
		c.standIn = true
		in.standIns.flying++
	} else {
		delete(in.forced, c.id)
	}
	t := in.tasks.Get(c.id)
	c.reason, c.cause, c.from = in.reason(c, t), in.grantCause(c, t), t.Last
	in.out.claims.Put(c.id, coordinator.Wanted{
		ID: c.id, PropsOnly: !t.HasKey, Created: c.created, Modified: c.modified, Blockers: c.blockers,
		Skipped: c.skipped, SkippedAt: c.skippedAt, WithoutProps: !t.HasProps, HandedOver: in.tasks.HasNote(t.ID),
	}, time.Time{})
	if t.For == in.config.Name && !in.confirmAt.IsZero() {
		in.confirms = confirmsMax // what a join has set in motion is not over
	}
	in.inFlight[c.id] = c
	in.fleet.Claiming(c.kind.Spec.Type, 1)
	if !c.pulled {
		in.fleet.Hold(in.config.Name, c.kind.Class, 1)
	}
	in.dropCandidate(c.id)
}

// reason says for people why a task is claimed.
func (in *incarnation) reason(c *candidate, t *mirror.Task) string {
	switch {
	case c.pulled:
		return "dequeued"
	case !c.planned || c.target == "":
		return "no node should have it"
	case c.target != in.config.Name:
		return "node " + c.target + " should have claimed it and did not"
	case t.For == in.config.Name && t.Last != "":
		return "moved here from node " + t.Last
	case t.For == in.config.Name:
		return "moved here" // before this node had a copy
	case t.Last != "":
		return "taken over from node " + t.Last
	}
	return "placed"
}

// grantCause is why a task is claimed.
func (in *incarnation) grantCause(c *candidate, t *mirror.Task) GrantCause {
	switch {
	case c.pulled:
		return GrantDequeued
	case t.Last == in.config.Name:
		return GrantReturned
	case t.For == in.config.Name: // of one that moved before this node had a copy Last is empty
		return GrantMoved
	case t.Last == "":
		return GrantPlaced
	}
	return GrantTakenOver
}

// landed takes a claim off those in flight.
func (in *incarnation) landed(id string) *candidate {
	c := in.inFlight[id]
	if c != nil {
		delete(in.inFlight, id)
		in.fleet.Claiming(c.kind.Spec.Type, -1)
		if c.standIn {
			in.standIns.flying--
		}
		if !c.pulled {
			in.fleet.Hold(in.config.Name, c.kind.Class, -1)
		}
		in.planning.dirty = true // there is room again for one that had none, unless it runs
		if in.flightMost = max(in.flightMost, len(in.inFlight)+1); len(in.inFlight) == 0 && in.flightMost > shrinkFrom {
			in.inFlight, in.flightMost = map[string]*candidate{}, 0
		}
	}
	return c
}

// dropQueued takes back the claims that were not asked for yet.
func (in *incarnation) dropQueued() {
	for _, w := range in.out.claims.DropAll() {
		in.landed(w.ID)
		if t := in.tasks.Get(w.ID); t != nil && !t.Owned() {
			in.addCandidate(t, time.Now())
		}
	}
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
