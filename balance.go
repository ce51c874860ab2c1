package windlass

import (
	"cmp"
	"slices"
	"time"

	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// driftTolerance is how far above its share a node may be before tasks move only
// because others came or went. It keeps finite tasks from being moved towards the
// end of their lives, when counts differ for an instant.
const driftTolerance = 1.1

// view is the cluster as it is now, for the balancer.
func (in *incarnation) view(now time.Time) *View {
	load := func(i *NodeInfo) NodeLoad {
		h := in.tally.Of(i.Name)
		return NodeLoad{
			Name: i.Name, Tasks: h.Tasks, Weight: h.Weight,
			Frozen: i.Frozen, Draining: i.Draining || i.Returning, Overloaded: i.Overloaded,
		}
	}
	v := &View{Now: now, Self: load(&in.info)}
	for i := range in.peers {
		v.Nodes = append(v.Nodes, load(&in.peers[i].info))
	}
	for c, n := range in.planning.open {
		if in.config.handler(c.Type) != nil {
			v.Unowned += n
		}
	}
	return v
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
	if atOnce && len(in.inFlight) > 0 {
		in.balanceAgain = trigger // what is being claimed cannot be given back yet
	}
	view := in.view(time.Now())
	view.Trigger = trigger
	for id, r := range in.runs {
		if view.Now.Sub(r.started) < age {
			continue
		}
		if !r.leaving() && r.phase != phaseSaving && (!in.forced[id] || in.mayOffer(r.claim.spec.Type, view.Now)) && in.someoneTakes(r.class) {
			view.Running = append(view.Running, RunningTask{
				ID: id, Token: r.claim.Token(), Started: r.started, Parked: r.phase == phaseParked,
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
	in.unsettled = false
	chosen := in.config.Balancer.Balance(view)
	released := 0
	for _, id := range chosen {
		if r := in.runs[id]; r != nil && !r.leaving() && in.offered(id, r.claim.spec.Type) {
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
	cluster, tolerance := in.clusterView(), 1.0
	if in.info.Frozen {
		cluster.Nodes[0].Closed = "" // it was told to balance nevertheless
	}
	// Whoever came gets its share to the task. Otherwise nothing that runs well
	// is moved for a task or two: who left has its tasks taken over evenly.
	if view.Trigger != TriggerCommand && in.confirmAt.IsZero() {
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
		// First those that do not end up beside more of their group.
		for _, harm := range []bool{false, true} {
			for i := len(view.Running) - 1; i >= 0 && left > 0; i-- {
				id := view.Running[i].ID
				c := in.runs[id].class
				if _, taken := targets[id]; taken || !m.Covers(c) || in.crowds(c, m.To) != harm {
					continue
				}
				ids, targets[id] = append(ids, id), m.To
				left--
			}
		}
	}
	in.unsettled = wanted > len(ids)
	if len(ids) == in.config.MovesMax && wanted > len(ids) {
		in.leaving.nextRound = view.Trigger
	}
	return ids, targets
}

// crowds tells whether a task would have more of its group beside it on another
// node than here.
func (in *incarnation) crowds(c *placement.Class, node string) bool {
	return c.Group != "" && in.tally.InGroup(c.Group, node)+1 > in.tally.InGroup(c.Group, in.config.Name)
}

// another is the node that should have a task that this one gives away.
func (in *incarnation) another(r *run) string {
	v := in.clusterView()
	v.Nodes[0].Closed = "it gives the task away"
	v.Open = map[*placement.Class]int{r.class: 1}
	return placement.New(v).Take(r.claim.ID(), r.class)
}

// someoneTakes tells whether another node could take a task of a class.
func (in *incarnation) someoneTakes(c *placement.Class) bool {
	return slices.ContainsFunc(in.peers, func(p peer) bool { return p.placed.Closed == "" && p.placed.Excludes(c) == "" })
}

// confirmStep balances once more a while after nodes came or went. Moves are
// decided by each node alone, while others move and claim as well, so the sum of
// all need not be even at first. It ends with a look that finds nothing to do.
func (in *incarnation) confirmStep(now time.Time) {
	if in.confirmAt.IsZero() || now.Before(in.confirmAt) {
		return
	}
	in.confirms--
	in.confirmAt = now.Add(confirmEvery)
	busy := len(in.inFlight)+len(in.leaving.moving)+len(in.planning.open) > 0
	if !busy {
		in.balance(TriggerSettling)
	}
	if in.confirms <= 0 || !busy && len(in.leaving.moving) == 0 && !in.unsettled {
		in.confirmAt = time.Time{}
	}
}

// settleStep balances a while after tasks came or went, and again while this
// node has more than its share: its tasks may have been too young to move, or
// others not ready for them.
func (in *incarnation) settleStep(now time.Time) {
	if r, ok := in.config.Balancer.(Reviewer); ok && !now.Before(in.reviewAt) {
		in.reviewAt = now.Add(max(r.ReviewEvery(), time.Second))
		in.balance(TriggerReview)
	}
	if in.settleAt.IsZero() || now.Before(in.settleAt) {
		return
	}
	in.settleAt = time.Time{}
	in.balance(TriggerDrift)
	view := in.view(now)
	if _, planned := in.config.Balancer.(Planner); in.unsettled || !planned && view.Self.Tasks > view.Share() && len(in.peers) > 0 {
		in.settleAt = now.Add(settle)
	}
}

// offer is when a forced task of some type is given back again, to see whether
// others can take it by now. One task stands for all of its type: if it comes
// back, the pause until the next attempt doubles, and beyond offerMax there is
// none, so that what only this node can run is not interrupted for ever.
type offer struct {
	at    time.Time
	pause time.Duration
	// probe is the task that was given back, empty for none.
	probe string
}

// Bounds of the pause before a forced task is offered.
const (
	offerMin = 30 * time.Second
	offerMax = time.Hour
)

// force records that a task is claimed above this node's share.
func (in *incarnation) force(id, taskType string, now time.Time) {
	in.forced[id] = true
	switch o, ok := in.offers[taskType]; {
	case !ok:
		in.offers[taskType] = offer{at: now.Add(offerMin), pause: offerMin}
	case o.probe == id:
		in.offers[taskType] = offer{at: now.Add(2 * o.pause), pause: 2 * o.pause}
	}
}

// mayOffer tells whether a forced task may be given back for balance.
func (in *incarnation) mayOffer(taskType string, now time.Time) bool {
	o := in.offers[taskType]
	return o.probe == "" && o.pause <= offerMax && !o.at.After(now)
}

// offered tells whether a task may go, and notes that it does.
func (in *incarnation) offered(id, taskType string) bool {
	if !in.forced[id] {
		return true
	}
	o := in.offers[taskType]
	if o.probe != "" {
		return false // one stands for all
	}
	o.probe = id
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
		case t.Owned() && t.Session != in.session.ID():
			delete(in.offers, taskType)
			for forced := range in.forced {
				if r := in.runs[forced]; r == nil || r.claim.spec.Type == taskType {
					delete(in.forced, forced) // one that is not held here is marked anew if it must be
				}
			}
		}
	}
}

// hold keeps this node from claiming a task again at once.
func (in *incarnation) hold(id string) { in.holds[id] = time.Now().Add(releasedHold) }
