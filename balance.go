package windlass

import (
	"cmp"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// triggers are when a node balances.
type triggers struct {
	// due is the trigger to balance for once everything that has come in is planned,
	// again the one to balance for once more when claims that were in flight have come
	// in; zero for none.
	due, again Trigger
	// confirmAt is when to look again whether what a join or a leave has caused
	// is even by now, zero for never; confirms is how often still. uneven is set if it
	// was not at the last look: tasks that end everywhere at once are seen to end
	// elsewhere first.
	confirmAt time.Time
	confirms  int
	uneven    bool
	// settleAt is when to look whether tasks that came or went have left it uneven, zero
	// for never; unsettled tells that the plan wanted more tasks to move than could.
	settleAt  time.Time
	unsettled bool
	// reviewAt is when to ask a Reviewer.
	reviewAt time.Time
}

// driftTolerance is how far from its share a node may be, as a part of it, before
// tasks move only because others came or went. It keeps finite tasks from being
// moved towards the end of their lives, when counts differ for an instant.
const driftTolerance = 0.1

// view is the cluster as it is now, for the balancer.
func (in *incarnation) view(now time.Time) *View {
	held := in.fleet.HeldBy(in.config.Name)
	v := &View{Now: now, Self: NodeLoad{
		Name: in.config.Name, Tasks: held.Tasks, Weight: held.Weight,
		Frozen: in.info.Frozen, Draining: in.info.Draining || in.info.Returning, Overloaded: in.info.Overloaded,
	}}
	for _, p := range in.fleet.Peers() {
		if in.sharesTypes(p.Types) {
			held := in.fleet.HeldBy(p.Name)
			v.Nodes = append(v.Nodes, NodeLoad{
				Name: p.Name, Tasks: held.Tasks, Weight: held.Weight,
				Frozen: p.Frozen, Draining: p.Draining || p.Returning, Overloaded: p.Overloaded,
			})
		}
	}
	for c, n := range in.board.Open() {
		if in.config.handler(c.Type) != nil {
			v.Unowned += n
		}
	}
	return v
}

// sharesTypes reports whether another node handles a type that this one handles. One that
// does not can take none of this node's tasks, and has none that this node could take.
func (in *incarnation) sharesTypes(types []string) bool {
	return slices.ContainsFunc(types, func(taskType string) bool {
		return in.config.handler(taskType) != nil || taskType == AnyType && len(in.config.Handlers) > 0
	})
}

// leaving tells whether a run is on its way out and no longer counts.
func (r *run) leaving() bool {
	return r.departing || r.phase == phaseStopping || r.phase == phaseEnding
}

// balance asks the balancer what to give back, and does.
func (in *incarnation) balance(trigger Trigger) {
	if in.closing || in.lost || in.info.Draining || in.tasks.Revision() == 0 || in.nodes.Revision() == 0 {
		return
	}
	if in.info.Frozen && trigger != TriggerCommand {
		return
	}
	atOnce := trigger == TriggerMembership || trigger == TriggerCommand
	age := map[Trigger]time.Duration{TriggerSettling: confirmEvery, TriggerDrift: settle, TriggerReview: settle}[trigger]
	if atOnce && in.board.InFlight() > 0 {
		in.triggers.again = trigger // what is being claimed cannot be given back yet
	}
	view := in.view(time.Now())
	view.Trigger = trigger
	for id, r := range in.runs {
		running := view.Now.Sub(in.node.timeOf(r.face.started))
		if running < age || in.config.pulls(r.class().Type) || trigger != TriggerCommand && in.fleet.EndsSoon(r.class().Type, running, trigger == TriggerSettling) {
			continue
		}
		if !r.leaving() && r.phase != phaseSaving && (!in.forced[id] || in.mayOffer(r.class().Type, view.Now)) && in.fleet.AnyTakes(r.class()) {
			view.Running = append(view.Running, RunningTask{
				ID: id, Token: r.claim.Token(), Started: in.node.timeOf(r.face.started), Parked: r.phase == phaseParked,
			})
		}
	}
	slices.SortFunc(view.Running, func(a, b RunningTask) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	var targets map[string]string
	view.planned = func() (ids []string) {
		ids, targets = in.plannedMoves(view)
		return ids
	}
	in.triggers.unsettled = false
	chosen := in.config.Balancer.Balance(view)
	released := 0
	for _, id := range chosen {
		if r := in.runs[id]; r != nil && !r.leaving() && in.offered(id, targets[id], r.class().Type) {
			in.depart(id, targets[id], ErrReleased)
			released++
		}
	}
	if released > 0 {
		in.events.Balanced(trigger, released)
	}
}

// plannedMoves are the tasks that the plan moves away from this node, the
// youngest first, and where each is to go.
func (in *incarnation) plannedMoves(view *View) (ids []string, targets map[string]string) {
	cluster, tolerance := in.clusterView(in.fleet.SurelyShortLived()), 0.0
	cluster.Nodes = slices.Clone(cluster.Nodes) // closed in this plan only
	if in.info.Frozen {
		cluster.Nodes[0].Closed = "" // it was told to balance nevertheless
	}
	for i := range cluster.Nodes {
		if in.refuses(cluster.Nodes[i].Name, view.Now) {
			cluster.Nodes[i].Closed = "it did not claim what it should have"
		}
	}
	// Whoever came gets its share to the task. Otherwise nothing that runs well
	// is moved for a task or two: who left has its tasks taken over evenly.
	if view.Trigger != TriggerCommand && in.triggers.confirmAt.IsZero() {
		tolerance = driftTolerance
	}
	targets = map[string]string{}
	wanted := 0
	for _, m := range placement.New(cluster).Moves(in.config.MovesMax*len(cluster.Nodes), tolerance) {
		if m.From != in.config.Name {
			continue
		}
		wanted += m.Tasks
		left := min(m.Tasks, in.config.MovesMax-len(ids))
		for harm := range harms {
			for i := len(view.Running) - 1; i >= 0 && left > 0; i-- {
				id := view.Running[i].ID
				c := in.runs[id].class()
				if _, taken := targets[id]; taken || !m.Covers(c) || in.harm(c, m.To, cluster.Nodes) != harm {
					continue
				}
				ids, targets[id] = append(ids, id), m.To
				left--
			}
		}
	}
	in.triggers.unsettled = wanted > len(ids) || len(in.offers) > 0
	if len(ids) == in.config.MovesMax && wanted > len(ids) {
		in.leaving.nextRound = view.Trigger
	}
	return ids, targets
}

// harms are the degrees of harm that a move may do: none, and a preference that
// is given up. What spreads its group is not moved for balance at all.
const harms = 2

// harm is what moving a task of a class to another node does to what it asks for.
func (in *incarnation) harm(c *placement.Class, to string, nodes []placement.Node) int {
	if c.Group == "" && len(c.Prefer) == 0 {
		return 0 // nearly always; it is asked of each task that could move
	}
	self := nodes[0]
	target := self
	here, there := 0, 0 // of its group, in the zones
	for _, n := range nodes {
		if n.Name == to {
			target = n
		}
	}
	if c.Group != "" {
		for _, n := range nodes {
			if n.Zone == self.Zone {
				here += in.inGroup(c.Group, n.Name)
			}
			if n.Zone == target.Zone {
				there += in.inGroup(c.Group, n.Name)
			}
		}
		if self.Zone != target.Zone && there+1 > here {
			return harms
		}
		if in.inGroup(c.Group, to)+1 > in.inGroup(c.Group, self.Name) && (self.Zone == target.Zone || there+1 == here) {
			return harms
		}
	}
	if target.Preferred(c) < self.Preferred(c) {
		return harms - 1
	}
	return 0
}

// inGroup is how many tasks of a group a node holds or is about to claim.
func (in *incarnation) inGroup(group, node string) int {
	return in.fleet.InGroup(group, node) + in.board.Planned(group, node)
}

// another is the node that should have a task that this one gives away.
func (in *incarnation) another(r *run) string {
	v := in.clusterView(in.fleet.ShortLived())
	v.Nodes[0].Closed = "it gives the task away"
	v.Open = map[*placement.Class]int{r.class(): 1}
	return placement.New(v).Take(r.claim.ID(), r.class())
}

// confirmStep balances once more a while after nodes came or went. Moves are
// decided by each node alone, while others move and claim as well, so the sum of
// all need not be even at first.
func (in *incarnation) confirmStep(now time.Time) {
	if in.triggers.confirmAt.IsZero() || now.Before(in.triggers.confirmAt) {
		return
	}
	in.triggers.confirms--
	in.triggers.confirmAt = now.Add(confirmEvery)
	busy := in.board.InFlight()+len(in.leaving.moving)+len(in.board.Open()) > 0
	uneven, was := !busy && !in.even(), in.triggers.uneven
	if uneven && was {
		in.balance(TriggerSettling)
	}
	in.triggers.uneven = uneven
	if in.triggers.confirms <= 0 && (was || !uneven) { // or there is one look more
		in.triggers.confirmAt = time.Time{}
	}
}

// even tells whether the plan moves nothing. It does not look at the tasks, of
// which there may be very many.
func (in *incarnation) even() bool {
	_, planned := in.config.Balancer.(Planner)
	return planned && len(placement.New(in.clusterView(in.fleet.SurelyShortLived())).Moves(1, 0)) == 0
}

// settleStep balances a while after tasks came or went, and again while this
// node has more than its share: its tasks may have been too young to move, or
// others not ready for them.
func (in *incarnation) settleStep(now time.Time) {
	if r, ok := in.config.Balancer.(Reviewer); ok && !now.Before(in.triggers.reviewAt) {
		in.triggers.reviewAt = now.Add(max(r.ReviewEvery(), time.Second))
		in.balance(TriggerReview)
	}
	if in.triggers.settleAt.IsZero() || now.Before(in.triggers.settleAt) {
		return
	}
	in.triggers.settleAt = time.Time{}
	in.balance(TriggerDrift)
	view := in.view(now)
	if _, planned := in.config.Balancer.(Planner); in.triggers.unsettled || !planned && view.Self.Tasks > view.Share() && in.fleet.Size() > 1 {
		in.triggers.settleAt = now.Add(settle)
	}
}

// offer is when a forced task of some type is given back again, to see whether
// others can take it by now. One task stands for all of its type: if it comes
// back, the pause until the next attempt doubles, and beyond offerMax there is
// none, so that what only this node can run is not interrupted for ever.
type offer struct {
	at    time.Time
	pause time.Duration
	// probe is the task that was given back, empty for none, and to whom: empty
	// for anyone.
	probe, to string
	// token is that of the claim on it that was given up.
	token broker.Revision
	// refusers are the nodes that should have claimed tasks of the type and did
	// not: nothing else is moved to them.
	refusers map[string]bool
}

// Bounds of the pause before a forced task is offered.
const (
	offerMin = 30 * time.Second
	offerMax = time.Hour
)

// force records that a task is claimed above this node's share.
func (in *incarnation) force(id, taskType, refuser string, now time.Time) {
	in.forced[id] = true
	o, ok := in.offers[taskType]
	switch {
	case !ok:
		o = offer{at: now.Add(offerMin), pause: offerMin, refusers: map[string]bool{}}
	case o.probe == id:
		o = o.again(now)
	}
	o.refusers[refuser] = true
	in.offers[taskType] = o
}

// again is the next attempt after one that failed.
func (o offer) again(now time.Time) offer {
	return offer{at: now.Add(2 * o.pause), pause: 2 * o.pause, refusers: o.refusers}
}

// mayOffer tells whether a forced task may be given back for balance.
func (in *incarnation) mayOffer(taskType string, now time.Time) bool {
	o := in.offers[taskType]
	return o.probe == "" && o.pause <= offerMax && !o.at.After(now)
}

// refuses tells whether a node is to be left out of moves, because it has not
// claimed what it should have and it is not time to try again.
func (in *incarnation) refuses(node string, now time.Time) bool {
	for taskType, o := range in.offers {
		if o.refusers[node] && !in.mayOffer(taskType, now) {
			return true
		}
	}
	return false
}

// offered tells whether a task may go, and notes that it does.
func (in *incarnation) offered(id, to, taskType string) bool {
	o := in.offers[taskType]
	if !in.forced[id] && !o.refusers[to] {
		return true
	}
	if o.probe != "" {
		return false // one stands for all
	}
	o.probe, o.to, o.token = id, to, in.runs[id].claim.token()
	in.offers[taskType] = o
	return true
}

// answerOffer takes what became of a task that was offered: if another node has
// it, others of its type can go as well.
func (in *incarnation) answerOffer(id string, t *mirror.Task) {
	for taskType, o := range in.offers {
		switch {
		case o.probe != id:
		case t == nil: // it is gone, and nobody knows who could have taken it
			o.probe, o.at = "", time.Now().Add(o.pause)
			in.offers[taskType] = o
		case t.Session == in.session.ID() && t.Token == o.token: // it is still here
		case t.Owned() && (t.Session == in.session.ID() || o.to != "" && t.Owner != o.to):
			// Not the one that should have had it: that one still takes none.
			in.offers[taskType] = o.again(time.Now())
		case t.Owned():
			delete(in.offers, taskType)
			for forced := range in.forced {
				if r := in.runs[forced]; r == nil || r.class().Type == taskType {
					delete(in.forced, forced) // one that is not held here is marked anew if it must be
				}
			}
		}
	}
}

// hold keeps this node from claiming a task again at once.
func (in *incarnation) hold(id string) { in.board.Hold(id, time.Now().Add(releasedHold)) }
