package windlass

import (
	"iter"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/life"
	"github.com/windlass-go/windlass/internal/schedule"
)

// newGiving returns the Giving of this node.
func (in *incarnation) newGiving() *schedule.Giving {
	rules := schedule.GivingRules{
		Session: in.session.ID(), MovesMax: in.config.MovesMax,
		Self: in.givingSelf, Held: in.held, Get: in.heldBy, Balance: in.askToBalance, Leaves: in.leaves,
		StillUntil: func() time.Time { return in.deaths.StillUntil(in.session.Timing().TTL) },
		HasMore: func(now time.Time) bool {
			v := in.view(now)
			return v.Self.Tasks > v.Share()
		},
		Balanced: func(t events.Trigger, claims int) { in.events.Balanced(t, claims) },
	}
	_, rules.Planned = in.config.Balancer.(Planner)
	if r, ok := in.config.Balancer.(Reviewer); ok {
		rules.ReviewEvery = r.ReviewEvery
	}
	return schedule.NewGiving(in.fleet, in.board, rules)
}

// givingSelf returns this node for its Giving.
func (in *incarnation) givingSelf() schedule.Self {
	idle := in.stage != stageWorking || in.info.Draining || in.tasks.Revision() == 0 || in.nodes.Revision() == 0
	return schedule.Self{Node: in.info.Placed(), Frozen: in.info.Frozen || in.info.Cordoned || !in.info.Probation.IsZero(), Idle: idle}
}

// view returns the current cluster for the balancer.
func (in *incarnation) view(now time.Time) *View {
	held := in.fleet.HeldBy(in.config.Name)
	v := &View{Now: now, Self: NodeLoad{
		Name: in.config.Name, Tasks: held.Tasks, Weight: held.Weight,
		Frozen: in.info.Frozen || in.info.Cordoned, Draining: in.info.leaving(), Overloaded: in.info.Overloaded,
	}}
	for _, p := range in.fleet.Peers() {
		if in.config.sharesTypes(p.Types) {
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

// sharesTypes reports whether another node handles a type that this one handles. A node
// that does not can take none of this node's tasks, and has none that this node could
// take.
func (c Config) sharesTypes(types []string) bool {
	return slices.ContainsFunc(types, func(taskType string) bool {
		return c.handler(taskType) != nil || taskType == AnyType && len(c.Handlers) > 0
	})
}

// leaving reports whether a run is ending or being given away and no longer counts.
func (r *run) leaving() bool {
	return r.departing || r.phase == life.Stopping || r.phase == life.Ending
}

// held yields the claims that this node holds.
func (in *incarnation) held() iter.Seq[schedule.Held] {
	return func(yield func(schedule.Held) bool) {
		for id := range in.runs {
			if h, _ := in.heldBy(id); !yield(h) {
				return
			}
		}
	}
}

// heldBy returns the claim that this node holds on a task.
func (in *incarnation) heldBy(id string) (h schedule.Held, ok bool) {
	r := in.runs[id]
	if r == nil {
		return h, false
	}
	losses := in.deaths.Losses(id)
	if r.moved && !in.deaths.Empty() {
		losses++
	}
	return schedule.Held{
		ID: id, Token: r.claim.held.Token, Class: r.class(), Started: in.node.timeOf(r.published.started), Parked: r.phase == life.Parked,
		Losses: losses, Leaves: r.leaving(), Saving: r.phase == life.Saving, Pulled: in.config.pulls(r.class().Type),
	}, true
}

// askToBalance asks the balancer which tasks to release.
func (in *incarnation) askToBalance(t events.Trigger, running []schedule.Held, planned func() []string, now time.Time) []string {
	view := in.view(now)
	view.Trigger, view.planned = t, planned
	for _, h := range running {
		view.Running = append(view.Running, RunningTask{ID: h.ID, Token: int64(h.Token), Started: h.Started, Parked: h.Parked})
	}
	return in.config.Balancer.Balance(view)
}

// leaves makes a run no longer count, because it is to be given away.
func (in *incarnation) leaves(id, to string) {
	r := in.runs[id]
	r.departing, r.handTo = true, to
	in.countRun(r)
}

// stay makes those runs count again whose handlers were not yet told to stop.
func (in *incarnation) stay() {
	for _, d := range in.giving.Stay() {
		if r := in.runs[d.ID]; r != nil && r.claim.held.Token == d.Token {
			r.departing, r.handTo = false, ""
			in.countRun(r)
			in.applyCommand(r) // to what it was told while it was to leave
		}
	}
}

// announceAfter is how long a handler may take to stop before the target of its task is
// noted beside the task, for nodes that plan meanwhile.
const announceAfter = 100 * time.Millisecond

// giveAway tells the handlers of the next tasks that are to be given away to stop.
func (in *incarnation) giveAway(now time.Time) {
	if in.stage != stageWorking {
		in.giving.DropQueued() // everything was told to stop
	}
	for _, d := range in.giving.Departures(now) {
		r := in.runs[d.ID]
		if r == nil || r.claim.held.Token != d.Token {
			continue
		}
		in.board.Hold(d.ID, now)
		cause := ErrReleased
		if d.Draining {
			cause = ErrDraining
		}
		if in.stopRun(d.ID, cause); r.handTo != "" && r.phase == life.Stopping {
			in.out.hints.Put(d.ID, in.hint(r), now.Add(announceAfter))
		}
	}
}

// hint returns the transaction that notes where a task is going. Without the note, no
// other node knows before the task is released.
func (in *incarnation) hint(r *run) broker.Txn {
	return broker.Txn{
		If:   []broker.Cond{broker.Created(in.node.space.Owner(r.claim.held.ID), r.claim.held.Token)},
		Then: []broker.Op{broker.PutSession(in.node.space.Handover(r.claim.held.ID), coordinator.OwnerValue(r.handTo), in.session.ID())},
	}
}
