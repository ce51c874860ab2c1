package schedule

import "time"

// DrainTick is the interval at which a draining node gives claims away.
const DrainTick = 100 * time.Millisecond

// drain is the pace at which a draining node gives claims away.
type drain struct {
	perSecond int
	// next is when the next few are given away, zero for never.
	next time.Time
}

// Drain makes the node give everything away, at that many claims per second, in calls
// of Drained.
func (g *Giving) Drain(perSecond int, now time.Time) {
	g.drain = drain{perSecond: perSecond, next: now}
}

// EndDrain ends the drain.
func (g *Giving) EndDrain() { g.drain.next = time.Time{} }

// Drained queues the next few claims of a draining node to be given away. told is true
// if the others can already know that it drains: in their plans, a task that is given
// away before would be assigned to this node.
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
