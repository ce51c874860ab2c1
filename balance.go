package windlass

import (
	"cmp"
	"slices"
	"time"
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
		if !r.leaving() && r.phase != phaseSaving && !in.forced[id].until.After(view.Now) && in.someoneTakes(r.claim.spec.Type) {
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
		if r := in.runs[id]; r != nil && !r.leaving() {
			if f, ok := in.forced[id]; ok {
				f.offered = true
				in.forced[id] = f
			}
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
// node has more than its share of tasks that were too young to move.
func (in *incarnation) settleStep(now time.Time) {
	if in.settleAt.IsZero() || now.Before(in.settleAt) {
		return
	}
	in.settleAt = time.Time{}
	in.balance(TriggerDrift)
	if view := in.view(now); view.Self.Tasks > view.Share()+1 && len(in.peers) > 0 {
		in.settleAt = now.Add(settle)
	}
}

// forcing is a claim above this node's share. Giving the task back for balance
// would most likely bring it here again, so that is not tried before a while,
// and later each time that it did: whoever could not take it may be able to by
// then.
type forcing struct {
	until time.Time
	pause time.Duration
	// offered tells that it was given back for balance since.
	offered bool
}

// Bounds of the pause before a forced claim may be given back for balance.
const (
	forcedMin = 30 * time.Second
	forcedMax = time.Hour
)

// force records that a task is claimed above this node's share.
func (in *incarnation) force(id string, now time.Time) {
	pause := forcedMin
	if before := in.forced[id]; before.offered {
		pause = min(2*before.pause, forcedMax)
	}
	in.forced[id] = forcing{until: now.Add(pause), pause: pause}
}

// hold keeps this node from claiming a task again at once.
func (in *incarnation) hold(id string) { in.holds[id] = time.Now().Add(releasedHold) }
