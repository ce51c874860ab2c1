package schedule

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// Giving decides which of its claims this node gives away, to whom, and how fast.
type Giving struct {
	fleet *Fleet
	board *Board
	rules GivingRules

	triggers triggers
	offers   offers
	leaving  leaving
	drain    drain
	// stillUntil is when tasks may move for balance again.
	stillUntil time.Time
}

// Held is a claim that this node holds.
type Held struct {
	ID    string
	Token broker.Revision
	Class *placement.Class
	// Started is when its handler was started, zero if it has none. A Parked claim
	// waits without a handler.
	Started time.Time
	Parked  bool
	// Losses is how many claims of the task have ended with their nodes lately, and one
	// more if this claim is itself the result of a move.
	Losses int
	// Leaves is true if the claim is being given away, Saving if a state is being
	// stored, and Pulled if it was made for a call of Dequeue.
	Leaves, Saving, Pulled bool
}

// GivingRules are the settings and callbacks of a Giving. Callbacks must not block.
type GivingRules struct {
	// Session is the session of the node.
	Session broker.SessionID
	// MovesMax limits how many claims are given away in one round of balancing.
	MovesMax int
	// Planned is true if the balancer releases what the plan moves elsewhere.
	Planned bool
	// ReviewEvery returns how often the balancer is asked when nothing has changed; nil
	// means never.
	ReviewEvery func() time.Duration

	// Self returns the current node.
	Self func() Self
	// Held yields the claims that it holds, and Get returns one of them.
	Held func() iter.Seq[Held]
	Get  func(id string) (Held, bool)
	// Balance asks the balancer which of the running tasks, the longest running first,
	// to give away. planned returns those that the plan moves elsewhere.
	Balance func(t events.Trigger, running []Held, planned func() []string, now time.Time) []string
	// StillUntil returns a time before which nothing is moved for balance.
	StillUntil func() time.Time
	// HasMore reports whether the node holds more than its share. It is called if the
	// balancer does not follow the plan.
	HasMore func(now time.Time) bool
	// Leaves reports that a claim is to be given away to a node, or to any node if that
	// is empty: it no longer counts.
	Leaves func(id, to string)
	// Balanced reports how many claims are given away for a trigger.
	Balanced func(t events.Trigger, claims int)
}

// Self is the node whose claims are given away.
type Self struct {
	// Node is the node for the planner.
	placement.Node
	// A Frozen node balances only on command.
	Frozen bool
	// Idle is set while the node balances nothing: it drains or ends, or does not know
	// the cluster yet.
	Idle bool
}

// NewGiving returns the Giving of a node that holds nothing.
func NewGiving(fleet *Fleet, board *Board, rules GivingRules) *Giving {
	g := &Giving{fleet: fleet, board: board, rules: rules, leaving: leaving{stopped: map[string]time.Time{}, moving: map[string]moving{}}}
	g.offers.clear()
	return g
}

// FleetChanged reports that the set of nodes that take tasks has changed, and whether
// one has joined.
func (g *Giving) FleetChanged(joined bool, now time.Time) {
	g.offers.clear()
	g.triggers.fleetChanged(joined, now)
}

// TasksChanged reports that tasks came, went, or found an owner.
func (g *Giving) TasksChanged(now time.Time) { g.triggers.settleSoon(now) }

// Shown reports the state of one task in the copy; nil if it is gone.
func (g *Giving) Shown(id string, t *mirror.Task, now time.Time) {
	if t == nil || t.Session != g.rules.Session {
		g.moved(id)
	}
	if t == nil || t.Owned() && t.Session != g.rules.Session {
		delete(g.leaving.stopped, id)
	}
	g.offers.shown(id, t, g.rules.Session, now)
}

// Claimed reports that this node claims a task, which another may have given to it.
func (g *Giving) Claimed(c *Candidate, moved bool, now time.Time) {
	if c.InsteadOf != "" {
		g.offers.force(c.ID, c.Kind.Class.Type, c.InsteadOf, now)
	} else {
		delete(g.offers.forced, c.ID)
	}
	if moved {
		g.triggers.arriving()
	}
}

// Landed reports that flights have landed, and that granted claims are held.
func (g *Giving) Landed() {
	if again := g.triggers.again; again != 0 {
		g.triggers.again, g.triggers.due = 0, again
	}
}

// Pass balances for whatever is due. Open tasks and claims in flight must be decided
// before.
func (g *Giving) Pass(now time.Time) {
	if g.stillUntil = g.rules.StillUntil(); g.stillUntil.After(now) {
		return
	}
	g.confirm(now)
	if every := g.rules.ReviewEvery; every != nil && !now.Before(g.triggers.reviewAt) {
		g.triggers.reviewAt = now.Add(max(every(), time.Second))
		g.Balance(events.TriggerReview, now)
	}
	g.settle(now)
	if due := g.triggers.due; due != 0 {
		g.triggers.due = 0
		g.Balance(due, now)
	}
}

// Wake returns when a Pass, a Drained or Departures has something to do, zero if not
// before something changes. told is as for Drained.
func (g *Giving) Wake(told bool) (at time.Time) {
	at = soonest(g.triggers.settleAt, g.triggers.confirmAt)
	if g.rules.ReviewEvery != nil {
		at = soonest(at, g.triggers.reviewAt)
	}
	if g.triggers.due != 0 {
		at = soonest(at, longAgo)
	}
	if !at.IsZero() {
		at = later(at, g.stillUntil)
	}
	if len(g.leaving.queue) > 0 {
		at = soonest(at, g.leaving.nextAt)
	}
	if told {
		at = soonest(at, g.drain.next)
	}
	return at
}

// Give gives one claim away, to the node to which the plan would assign the task.
func (g *Giving) Give(h *Held, now time.Time) {
	v := g.view(g.fleet.ShortLived())
	v.Nodes[0].Closed = "it gives the task away"
	v.Open = map[*placement.Class]int{h.Class: 1}
	g.depart(h, placement.New(v).Take(h.ID, h.Class), false, now)
}

// Balance asks the balancer what to give away, and queues it.
func (g *Giving) Balance(trigger events.Trigger, now time.Time) {
	self := g.rules.Self()
	if self.Idle || self.Frozen && trigger != events.TriggerCommand {
		return
	}
	if trigger == events.TriggerCommand {
		g.triggers.commanded(now)
	}
	if (trigger == events.TriggerMembership || trigger == events.TriggerCommand) && g.board.InFlight() > 0 {
		g.triggers.again = trigger // what is being claimed cannot be given away yet
	}
	running := g.movable(trigger, now)
	var targets map[string]string
	g.triggers.unsettled = false
	chosen := g.rules.Balance(trigger, running, func() (ids []string) {
		ids, targets = g.plannedMoves(trigger, running, now)
		return ids
	}, now)
	given := 0
	for _, id := range chosen {
		if h, ok := g.rules.Get(id); ok && !h.Leaves && g.offers.take(&h, targets[id]) {
			g.depart(&h, targets[id], false, now)
			given++
		}
	}
	if given > 0 {
		g.rules.Balanced(trigger, given)
	}
}

// movable returns the claims that could be given away for a trigger, the longest
// running first. Tasks that have just lost their nodes count as running longest: they
// were interrupted often enough.
func (g *Giving) movable(trigger events.Trigger, now time.Time) (running []Held) {
	age := map[events.Trigger]time.Duration{events.TriggerSettling: confirmEvery, events.TriggerDrift: Settle, events.TriggerReview: Settle}[trigger]
	for h := range g.rules.Held() {
		ran := now.Sub(h.Started)
		switch {
		case h.Leaves, h.Saving, h.Pulled, ran < age:
		case trigger != events.TriggerCommand && g.fleet.EndsSoon(h.Class.Type, ran, trigger == events.TriggerSettling):
		case g.offers.holdsBack(&h, now), !g.fleet.AnyTakes(h.Class):
		default:
			running = append(running, h)
		}
	}
	slices.SortFunc(running, func(a, b Held) int {
		return cmp.Or(cmp.Compare(b.Losses, a.Losses), a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return running
}

// view returns the cluster for the planner. shortLived has the types whose tasks end
// about as soon as they have begun.
func (g *Giving) view(shortLived map[string]bool) placement.View {
	v := g.fleet.View(g.rules.Self().Node, g.board.Open(), shortLived)
	v.Nodes = slices.Clone(v.Nodes) // what is closed in it is closed in this plan only
	v.Assigned = g.board.Assigned()
	return v
}

// plannedMoves returns the tasks that the plan moves away from this node, the youngest
// first, and the target of each.
func (g *Giving) plannedMoves(trigger events.Trigger, running []Held, now time.Time) (ids []string, targets map[string]string) {
	v, tolerance := g.view(g.fleet.SurelyShortLived()), 0.0
	if g.rules.Self().Frozen {
		v.Nodes[0].Closed = "" // it was told to balance nevertheless
	}
	for i := range v.Nodes {
		if g.offers.refuses(v.Nodes[i].Name, now) {
			v.Nodes[i].Closed = "it did not claim what it should have"
		}
	}
	// A node that joined gets its exact share. Otherwise nothing that runs well
	// is moved for a task or two: the tasks of a node that left are taken over evenly.
	if trigger != events.TriggerCommand && g.triggers.confirmAt.IsZero() && !g.spreads(now) {
		tolerance = driftTolerance
	}
	targets = map[string]string{}
	wanted, most := 0, g.rules.MovesMax
	plan := placement.New(v)
	moves := plan.Moves(most*len(v.Nodes), tolerance)
	if len(moves) == 0 && g.spreads(now) {
		if moves = plan.Spread(most * len(v.Nodes)); len(moves) == 0 {
			g.triggers.spreadUntil = time.Time{}
		}
	}
	for _, m := range moves {
		if m.From != v.Nodes[0].Name {
			continue
		}
		wanted += m.Tasks
		left := min(m.Tasks, most-len(ids))
		to := &v.Nodes[slices.IndexFunc(v.Nodes, func(n placement.Node) bool { return n.Name == m.To })]
		for _, unwillingly := range []bool{false, true} {
			for i := len(running) - 1; i >= 0 && left > 0; i-- {
				h := &running[i]
				if _, taken := targets[h.ID]; taken || !m.Covers(h.Class) || unwillingly != (to.Preferred(h.Class) < v.Nodes[0].Preferred(h.Class)) {
					continue
				}
				ids, targets[h.ID] = append(ids, h.ID), m.To
				left--
			}
		}
	}
	g.triggers.unsettled = wanted > len(ids) || len(g.offers.byType) > 0
	if len(ids) == most && wanted > len(ids) {
		g.leaving.nextRound = trigger
	}
	return ids, targets
}
