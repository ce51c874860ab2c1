package windlass

import (
	"cmp"
	"slices"
	"time"

	"github.com/windlass-go/windlass/internal/mirror"
)

// view is the cluster as it is now, for the balancer.
func (in *incarnation) view(now time.Time) *View {
	v := &View{Now: now, Self: NodeLoad{Name: in.config.Name, Frozen: in.info.Frozen, Draining: in.info.Draining}}
	v.Self.Tasks = len(in.inFlight)
	for id, r := range in.runs {
		if !r.leaving() && in.inFlight[id] == nil {
			v.Self.Tasks++
		}
	}
	// What nobody eligible holds is up for taking, or about to be: tasks of
	// nodes that are gone but not yet expired are, those of frozen nodes and
	// those that nothing can claim now are not.
	unowned := in.tasks.Len() - v.Self.Tasks - in.candidates.idle
	for _, p := range in.peers {
		load := NodeLoad{
			Name: p.info.Name, Tasks: in.tasks.Owned(p.info.Name), Frozen: p.info.Frozen, Draining: p.info.Draining,
		}
		unowned -= load.Tasks
		v.Nodes = append(v.Nodes, load)
	}
	v.Unowned = max(unowned, 0)
	return v
}

// leaving tells whether a run is on its way out and no longer counts.
func (r *run) leaving() bool { return r.phase == phaseStopping || r.phase == phaseEnding }

// balance asks the balancer what to give back, and does.
func (in *incarnation) balance(trigger Trigger) {
	if in.closing || in.lost || in.info.Draining || in.tasks.Revision() == 0 || in.nodes.Revision() == 0 {
		return
	}
	if in.info.Frozen && trigger != TriggerCommand {
		return
	}
	if trigger != TriggerDrift && len(in.inFlight) > 0 {
		in.balanceAgain = trigger // what is being claimed cannot be given back yet
	}
	view := in.view(time.Now())
	view.Trigger = trigger
	for id, r := range in.runs {
		if trigger == TriggerDrift && view.Now.Sub(r.started) < settle {
			continue
		}
		if !r.leaving() && r.phase != phaseSaving && (!in.forced[id] || in.mayOffer(r.claim.spec.Type, view.Now)) && in.someoneTakes(r.claim.spec.Type) {
			view.Running = append(view.Running, RunningTask{
				ID: id, Token: r.claim.Token(), Started: r.started, Parked: r.phase == phaseParked,
			})
		}
	}
	slices.SortFunc(view.Running, func(a, b RunningTask) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	released := 0
	for _, id := range in.config.Balancer.Balance(view) {
		if r := in.runs[id]; r != nil && !r.leaving() && in.offered(id, r.claim.spec.Type) {
			in.hold(id)
			in.stopRun(id, ErrReleased)
			released++
		}
	}
	if released > 0 {
		in.events.Balanced(trigger, released)
	}
}

// someoneTakes tells whether another node could take a task of a type.
func (in *incarnation) someoneTakes(taskType string) bool {
	return slices.ContainsFunc(in.peers, func(p peer) bool { return p.eligible() && p.handles(taskType) })
}

// settleStep balances a while after tasks came or went, and again while this
// node has more than its share: its tasks may have been too young to move, or
// others not ready for them.
func (in *incarnation) settleStep(now time.Time) {
	if in.settleAt.IsZero() || now.Before(in.settleAt) {
		return
	}
	in.settleAt = time.Time{}
	in.balance(TriggerDrift)
	if view := in.view(now); view.Self.Tasks > view.Share() && len(in.peers) > 0 {
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
