package windlass

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// candidate is a task that nobody holds, as this node sees it.
type candidate struct {
	id      string
	created broker.Revision
	// since is when this node first saw it claimable.
	since time.Time
	// idle tells that nothing but a change can make it claimable here: it is
	// blocked, not yet due, or left to others.
	idle bool

	// prepared tells that the fields below are filled in.
	prepared bool
	spec     Spec
	task     Task
	blockers []string
}

// candidates are all of them, with when to look at each again.
type candidates struct {
	byID map[string]*candidate
	due  timeQueue
	// waiters are the candidates that wait for a task to go, by that task.
	waiters map[string]map[string]struct{}
	// idle counts the candidates that are idle.
	idle int
	// balked tells that the balancer refused some since it was last asked
	// about all of them, at retryAt at the earliest.
	balked  bool
	retryAt time.Time
}

func newCandidates() candidates {
	return candidates{byID: map[string]*candidate{}, waiters: map[string]map[string]struct{}{}}
}

func (cs *candidates) setIdle(c *candidate, idle bool) {
	if c.idle == idle {
		return
	}
	c.idle = idle
	if idle {
		cs.idle++
	} else {
		cs.idle--
	}
}

func (cs *candidates) remove(id string) {
	c := cs.byID[id]
	if c == nil {
		return
	}
	cs.setIdle(c, false)
	for _, b := range c.blockers {
		if delete(cs.waiters[b], id); len(cs.waiters[b]) == 0 {
			delete(cs.waiters, b)
		}
	}
	delete(cs.byID, id)
	cs.due.remove(id)
}

// add makes a task a candidate, to be looked at now, unless it is one already.
func (cs *candidates) add(id string, created broker.Revision, now time.Time) *candidate {
	if c := cs.byID[id]; c != nil && c.created == created {
		return c
	}
	cs.remove(id)
	c := &candidate{id: id, created: created, since: now}
	cs.byID[id] = c
	cs.due.set(id, now)
	return c
}

// wait notes that a candidate waits for a task to go.
func (cs *candidates) wait(id, blocker string) {
	if cs.waiters[blocker] == nil {
		cs.waiters[blocker] = map[string]struct{}{}
	}
	cs.waiters[blocker][id] = struct{}{}
}

// freed looks again at what waited for a task that is gone.
func (cs *candidates) freed(id string, now time.Time) {
	for waiter := range cs.waiters[id] {
		if cs.byID[waiter] != nil {
			cs.due.set(waiter, now)
		}
	}
	delete(cs.waiters, id)
}

// reconsider looks again at all that could be claimed: the cluster changed.
func (cs *candidates) reconsider(now time.Time) {
	for id, c := range cs.byID {
		if !c.idle {
			cs.due.set(id, now)
		}
	}
	cs.balked = false
}

// reconsiderEvery bounds how often the end of a run makes a node look again at
// everything that its balancer refused.
const reconsiderEvery = 100 * time.Millisecond

// claimPass looks at every candidate that is due and claims those that this
// node should have, the most important first.
func (in *incarnation) claimPass(now time.Time) {
	if in.candidates.balked && in.loadFell && !now.Before(in.candidates.retryAt) {
		in.candidates.reconsider(now)
	}
	in.loadFell = in.loadFell && in.candidates.balked // too early to look again is not in vain
	due := in.candidates.due.popDue(now)
	if len(due) == 0 {
		return
	}
	ready := make([]*candidate, 0, len(due))
	for _, id := range due {
		if c := in.candidates.byID[id]; c != nil && in.claimable(c, now) {
			ready = append(ready, c)
		}
	}
	slices.SortFunc(ready, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.spec.Priority, a.spec.Priority), cmp.Compare(a.created, b.created),
			cmp.Compare(a.id, b.id))
	})
	view := in.view(now)
	ranks := in.newRanking(view)
	for _, c := range ready {
		in.consider(c, view, ranks)
	}
}

// claimable tells whether nothing but rank and balance speaks against claiming.
// If something does, it arranges for when to look again.
func (in *incarnation) claimable(c *candidate, now time.Time) bool {
	t := in.tasks.Get(c.id)
	if t == nil || t.Owned() || in.busyWith(c.id) {
		in.candidates.remove(c.id)
		return false
	}
	if !c.prepared && !in.prepare(c, t) {
		in.candidates.setIdle(c, true)
		return false
	}
	if c.spec.NotBefore.After(now) {
		in.candidates.setIdle(c, true)
		in.candidates.due.set(c.id, c.spec.NotBefore)
		return false
	}
	for _, b := range c.blockers {
		if blocker := in.tasks.Get(b); blocker != nil && blocker.HasKey {
			in.candidates.setIdle(c, true)
			in.candidates.wait(c.id, b)
			return false
		}
	}
	if c.idle {
		c.since = now // claimable only from now on
		in.candidates.setIdle(c, false)
	}
	if in.node.isLeftBehind(c.id) {
		in.candidates.due.set(c.id, now.Add(retryClaim))
		return false
	}
	if until := in.holds[c.id]; until.After(now) {
		in.candidates.due.set(c.id, until)
		return false
	}
	delete(in.holds, c.id)
	return true
}

// busyWith tells whether this node holds a task, is claiming it, or is asking
// whether it holds it.
func (in *incarnation) busyWith(id string) bool {
	return in.runs[id] != nil || in.inFlight[id] != nil || in.adopting[id]
}

// prepare reads what a task is. It returns false if this node leaves it to
// others.
func (in *incarnation) prepare(c *candidate, t *mirror.Task) bool {
	spec, err := parseSpec(t.Spec)
	if err != nil {
		in.events.Corrupt(in.node.space.Task(c.id), err)
		return false
	}
	if in.config.handler(spec.Type) == nil {
		return false
	}
	c.task = plainTask(c.id)
	if in.config.NewTask != nil {
		if c.task, err = safeNewTask(in.config.NewTask, c.id, t.Props); err != nil {
			in.events.Corrupt(in.node.space.Props(c.id), err)
		}
		if c.task == nil {
			return false
		}
	}
	blockers := depend.Blockers(c.id, spec.Needs)
	if len(blockers) > NeedsMax {
		in.events.Corrupt(in.node.space.Task(c.id), fmt.Errorf("waits for %d tasks; the limit is %d", len(blockers), NeedsMax))
		return false
	}
	c.spec, c.blockers, c.prepared = spec, blockers, true
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

// consider claims a candidate, or arranges for when to look again.
func (in *incarnation) consider(c *candidate, view *View, ranks *ranking) {
	if turn := c.since.Add(min(time.Duration(ranks.of(c))*rankStep, patience)); turn.After(view.Now) {
		in.candidates.due.set(c.id, turn)
		return
	}
	over := view.Self.Tasks >= view.Share()
	ok, again := in.config.Balancer.CanClaim(view, Candidate{Task: c.task, Spec: c.spec, Waiting: view.Now.Sub(c.since)})
	if !ok {
		if again.IsZero() {
			again = view.Now.Add(time.Second)
		}
		in.candidates.due.set(c.id, later(again, view.Now.Add(time.Millisecond)))
		if !in.candidates.balked {
			in.candidates.balked, in.candidates.retryAt = true, view.Now.Add(reconsiderEvery)
		}
		return
	}
	view.Self.Tasks++
	view.Unowned--
	if over {
		in.force(c.id, c.spec.Type, view.Now)
	} else {
		delete(in.forced, c.id)
	}
	in.inFlight[c.id] = c
	in.candidates.remove(c.id)
	t := in.tasks.Get(c.id)
	in.claimQueue = append(in.claimQueue, coordinator.Wanted{ID: c.id, PropsOnly: !t.HasKey, Created: c.created, Blockers: c.blockers})
}

// dropQueued takes back the claims that were not asked for yet.
func (in *incarnation) dropQueued() {
	for _, w := range in.claimQueue {
		delete(in.inFlight, w.ID)
		if t := in.tasks.Get(w.ID); t != nil && !t.Owned() {
			in.candidates.add(w.ID, t.Created, time.Now())
		}
	}
	in.claimQueue = nil
}

// later is the later of two times. A balancer that names the past must not make
// the loop spin.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ranking says whose turn it is, for one pass: the nodes that handle a type and
// have less than their share, or all that handle it if none has.
type ranking struct {
	in     *incarnation
	view   *View
	byType map[string][]string
	// full tells that byType reflects that this node has its share.
	full bool
}

func (in *incarnation) newRanking(view *View) *ranking {
	return &ranking{in: in, view: view, byType: map[string][]string{}}
}

func (r *ranking) of(c *candidate) int {
	if !r.full && r.view.Self.Tasks >= r.view.Share() {
		r.full = true
		clear(r.byType) // this node has reached its share during the pass
	}
	nodes, ok := r.byType[c.spec.Type]
	if !ok {
		nodes = r.takers(c.spec.Type)
		r.byType[c.spec.Type] = nodes
	}
	return placement.Rank(c.id, r.view.Self.Name, nodes)
}

func (r *ranking) takers(taskType string) []string {
	var below, all []string
	add := func(name string, tasks int) {
		all = append(all, name)
		if tasks < r.view.Share() {
			below = append(below, name)
		}
	}
	add(r.view.Self.Name, r.view.Self.Tasks)
	for _, p := range r.in.peers {
		if p.eligible() && p.handles(taskType) {
			add(p.info.Name, r.in.tasks.Owned(p.info.Name))
		}
	}
	if len(below) > 0 {
		return below
	}
	return all
}
