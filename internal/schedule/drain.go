package schedule

import "time"

// DrainTick is the time between two steps in which a draining node gives claims away.
const DrainTick = 100 * time.Millisecond

// drain is the pace at which a draining node gives claims away.
type drain struct {
	perSecond int
	// next is when the next few go, zero for never.
	next time.Time
}

// Drain has the node give everything away, so many claims a second, in calls of Drained.
func (g *Giving) Drain(perSecond int, now time.Time) {
	g.drain = drain{perSecond: perSecond, next: now}
}

// EndDrain ends that.
func (g *Giving) EndDrain() { g.drain.next = time.Time{} }

// Drained queues the next few claims to be given away of a node that drains. told reports
// that the others can know by now that it does: a task that is given away before would be
// meant for this node in their plans.
func (g *Giving) Drained(told bool, now time.Time) {
	d := &g.drain
	if d.next.IsZero() || now.Before(d.next) || !told {
		return
	}
	left := max(1, d.perSecond*int(DrainTick/time.Millisecond)/1000)
	empty := true
	for h := range g.rules.Held() {
		if empty = false; h.Leaves || h.Saving {
			continue
		}
		g.depart(&h, "", true, now)
		if left--; left == 0 {
			break
		}
	}
	if d.next = now.Add(DrainTick); empty && g.board.InFlight() == 0 {
		d.next = time.Time{}
	}
}
