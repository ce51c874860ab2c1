package schedule

import (
	"time"

	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/placement"
)

const (
	// confirmEvery is the time between two checks of whether the moves that a join or a
	// leave has caused have balanced the nodes, and how long a task must have been
	// running to move for that. confirmsMax is the largest number of checks.
	confirmEvery = time.Second
	confirmsMax  = 10
	// spreadMax is for how long groups are spread after a join or a command. It is a limit because
	// tasks of large groups that come and go always leave something to even out.
	spreadMax = 5 * time.Minute
	// driftTolerance is how far a node may be from its share, as a fraction of it,
	// before tasks move only because others came or went. It keeps finite tasks from
	// being moved towards the end of their lives, when counts differ for an instant.
	driftTolerance = 0.1
)

// triggers says when a node balances.
type triggers struct {
	// due is the trigger to balance for once everything that has come in is planned.
	// again is the one to balance for once more when the claims in flight have landed.
	// Zero means none.
	due, again events.Trigger
	// confirmAt is when to check again whether a join or a leave has been balanced,
	// zero for never; confirms is how many checks are left. uneven is set if it was not
	// at the last check: tasks that end everywhere at once are seen to end elsewhere
	// first.
	confirmAt time.Time
	confirms  int
	uneven    bool
	// settleAt is when to check whether tasks that came or went have left an imbalance,
	// zero for never. unsettled is set if the plan wanted more tasks to move than
	// could.
	settleAt  time.Time
	unsettled bool
	// spreadUntil is until when groups are spread since a join or a command; zero once they are.
	spreadUntil time.Time
	// reviewAt is when to call a balancer that wants reviews when nothing has changed.
	reviewAt time.Time
}

func (t *triggers) fleetChanged(joined bool, now time.Time) {
	t.due = events.TriggerMembership
	if joined {
		t.confirmAt, t.confirms, t.uneven, t.spreadUntil = now.Add(confirmEvery), confirmsMax, false, now.Add(spreadMax)
	}
	t.settleSoon(now) // for what cannot be moved at once
}

// commanded records that a command asks for balance. A task may have to come before another one
// goes.
func (t *triggers) commanded(now time.Time) {
	t.spreadUntil = now.Add(spreadMax)
	t.settleSoon(now)
}

func (t *triggers) settleSoon(now time.Time) {
	if t.settleAt.IsZero() {
		t.settleAt = now.Add(Settle)
	}
}

// arriving records that a task arrives which another node has given away, or has arrived there:
// the moves that a join has caused are not over.
func (t *triggers) arriving() {
	if !t.confirmAt.IsZero() {
		t.confirms = confirmsMax
	}
}

// spreads reports whether groups are being spread.
func (g *Giving) spreads(now time.Time) bool {
	return now.Before(g.triggers.spreadUntil) && g.fleet.Grouped()
}

// confirm balances once more a while after nodes came or went. Each node decides its
// moves alone, while others move and claim as well, so the sum need not be even at
// first.
func (g *Giving) confirm(now time.Time) {
	t := &g.triggers
	if t.confirmAt.IsZero() || now.Before(t.confirmAt) {
		return
	}
	t.confirms--
	t.confirmAt = now.Add(confirmEvery)
	busy := g.board.InFlight()+len(g.leaving.moving)+len(g.board.Open()) > 0
	uneven, was := !busy && !g.even(now), t.uneven
	if uneven && was {
		g.Balance(events.TriggerSettling, now)
	}
	t.uneven = uneven
	if t.confirms <= 0 && (was || !uneven) { // or there is one look more
		t.confirmAt = time.Time{}
	}
}

// even reports whether the plan moves nothing. It does not look at the tasks, of which
// there may be very many.
func (g *Giving) even(now time.Time) bool {
	if !g.rules.Planned {
		return false
	}
	plan := placement.New(g.view(g.fleet.SurelyShortLived()))
	return len(plan.Moves(1, 0)) == 0 && (!g.spreads(now) || len(plan.Spread(1)) == 0)
}

// settle balances a while after tasks came or went, and again while this node has more
// than its share: its tasks may have been too young to move, or others not ready for
// them.
func (g *Giving) settle(now time.Time) {
	t := &g.triggers
	if t.settleAt.IsZero() || now.Before(t.settleAt) {
		return
	}
	t.settleAt = time.Time{}
	g.Balance(events.TriggerDrift, now)
	if g.rules.Planned && g.spreads(now) || t.unsettled || !g.rules.Planned && g.rules.HasMore(now) && g.fleet.Size() > 1 {
		t.settleAt = now.Add(Settle)
	}
}
