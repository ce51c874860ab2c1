package windlass

import (
	"time"

	"github.com/windlass-go/windlass/internal/mirror"
)

// departures takes the nodes that are gone and those that are back. Whoever said
// that it would return has its tasks kept for it, and when most nodes vanish at
// about the same time, the brake goes on.
func (in *incarnation) departures(before []peer, now time.Time) {
	there := make(map[string]bool, len(in.peers))
	for i := range in.peers {
		name := in.peers[i].info.Name
		there[name] = true
		if _, away := in.away[name]; away {
			delete(in.away, name)
			in.lookAtReserved(name)
		}
		delete(in.brake.vanished, name)
	}
	for i := range before {
		p := before[i]
		if there[p.info.Name] {
			continue
		}
		delete(in.planning.claimedAt, p.info.Name)
		delete(in.planning.tardy, p.info.Name)
		// It may have said that it would go in the same batch of changes.
		if info := in.nodes.Gone(p.info.Name); info != nil {
			p = in.readPeer(p.info.Name, info)
		}
		if d := p.returnWithin; d > 0 && !p.info.Draining {
			in.away[p.info.Name] = now.Add(d)
		}
		if p.placed.Closed == "" {
			in.brake.vanished[p.info.Name] = now
		}
	}
	recently := now.Add(-2 * in.session.Timing().TTL)
	if n := in.brake.decide(len(in.peers)+1, recently, now); n > 0 {
		in.events.Braked(n, in.config.FailoverRate)
	}
}

// lookAtReserved looks again at what was kept for a node that is back.
func (in *incarnation) lookAtReserved(name string) {
	for id, c := range in.candidates.byID {
		if t := in.tasks.Get(id); !c.open && t != nil && t.Last == name {
			in.candidates.lookSoon(c)
		}
	}
}

// reservedUntil is until when a candidate is left to the node that held it last,
// because that asked for it and may be back soon; a time that is over for none.
func (in *incarnation) reservedUntil(c *candidate, t *mirror.Task, now time.Time) time.Time {
	if t.Last == "" || t.Last == in.config.Name || t.For != "" {
		return time.Time{}
	}
	if until, away := in.away[t.Last]; away {
		if !until.After(now) {
			delete(in.away, t.Last)
		}
		return until
	}
	for i := range in.peers {
		switch p := &in.peers[i]; {
		case p.info.Name != t.Last || p.returnWithin == 0 || p.info.Draining:
		case p.info.Returning:
			return c.seen.Add(p.returnWithin)
		default:
			// Its claims end before this node hears that it is gone itself.
			return c.seen.Add(rankStep)
		}
	}
	return time.Time{}
}

// brake slows down the taking over of tasks when most nodes are gone.
type brake struct {
	// vanished are the nodes that went without a word, and when.
	vanished map[string]time.Time
	on       bool
	// since is when it went on.
	since time.Time
	// every is the time between two tasks, next when the next one may go.
	every time.Duration
	next  time.Time
}

func newBrake(perSecond int) brake {
	return brake{vanished: map[string]time.Time{}, every: time.Second / time.Duration(perSecond)}
}

// decide puts the brake on if at least two nodes, and more than are there,
// vanished since a time. It returns how many if the brake goes on.
func (b *brake) decide(there int, since, now time.Time) int {
	if b.on && !b.rested(now) {
		return 0
	}
	b.on = false
	for name, at := range b.vanished {
		if at.Before(since) {
			delete(b.vanished, name)
		}
	}
	gone := len(b.vanished)
	if gone < 2 || gone <= there {
		return 0
	}
	b.on, b.since = true, now
	return gone
}

// brakeRest is how long nothing must have been waiting for the brake before it
// is taken off.
const brakeRest = 10 * time.Second

// rested tells that nothing has waited for the brake for a while.
func (b *brake) rested(now time.Time) bool { return now.Sub(later(b.next, b.since)) > brakeRest }

// slot tells whether a task that a node held last may be claimed now, and if not
// when to ask again.
func (b *brake) slot(c *candidate, last string, now time.Time) (again time.Time, ok bool) {
	if _, vanished := b.vanished[last]; !b.on || !vanished {
		return time.Time{}, true
	}
	if b.rested(now) {
		b.on = false
		clear(b.vanished)
		return time.Time{}, true
	}
	if c.slot.IsZero() {
		c.slot = later(b.next, now)
		b.next = c.slot.Add(b.every)
	}
	return c.slot, !c.slot.After(now)
}

// busy tells whether tasks of a node wait for the brake, here and elsewhere.
func (b *brake) busy(last string, now time.Time) bool {
	_, vanished := b.vanished[last]
	return b.on && vanished && !b.rested(now)
}
