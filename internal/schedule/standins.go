package schedule

import (
	"time"

	"github.com/windlass-go/windlass/placement"
)

// standIns limits the claims on tasks that another node should have claimed by now. The
// other node may have claimed them and this node's copy may lag. Then every such claim
// is refused, and costs most for the nodes whose copies lag most. So each is a probe
// first, like the packets of a TCP connection that has just begun (RFC 5681, slow
// start): one may be in flight, and one more for each that was granted, until one is
// refused.
type standIns struct {
	// window is how many may be in flight, inFlight how many are.
	window, inFlight int
	// barred is set if there was no room for one.
	barred bool
}

// mayStandIn reports whether another claim in another node's stead may be made. None is
// made while the copy is known to lag.
func (b *Board) mayStandIn() bool {
	s := &b.standIns
	s.barred = s.inFlight >= s.window || b.candidates.doubts > 0 || b.Lag.Behind(b.tasks.Revision())
	return !s.barred
}

// standAgain checks the candidates again for which there was no room, once there is:
// this looks at all that others should claim.
func (b *Board) standAgain() {
	if b.standIns.barred && b.mayStandIn() {
		b.targets.sweepAt = time.Time{}
	}
}

// answered handles the answer to a claim that was made in another node's stead.
func (s *standIns) answered(a Answer) {
	s.inFlight--
	switch a {
	case Granted:
		s.window++
	case Taken:
		s.window = 1
	}
}

// Times for which other nodes wait for the target of a task.
const (
	// patience is how much longer than RankStep they all wait for a node that has not
	// failed them. It may have just joined, or be on a busy machine. What others take
	// from it comes back to it later, which interrupts the task once more.
	patience = 2 * time.Second
	// ranksMax limits the ranks that wait one after the other; later ranks claim
	// together with the last.
	ranksMax = 40
	// busyMax limits how long the others wait for a node that keeps claiming other
	// tasks.
	busyMax = 10 * time.Second
)

// awaited identifies candidates that are waited for in the same way.
type awaited struct {
	// target is the node that should claim them.
	target string
	// gaveBack is set if the target held them last: it has given them back, so that
	// others can have them first.
	gaveBack bool
}

func (c *Candidate) awaited() awaited {
	return awaited{target: c.target, gaveBack: c.target == c.lastOwner}
}

// waitFor records since when the target of a candidate is waited for.
func (ts *targets) waitFor(c *Candidate) {
	if since, ok := ts.oldest[c.awaited()]; !ok || c.plannedAt.Before(since) {
		ts.oldest[c.awaited()] = c.plannedAt
	}
}

// lateFrom returns from when the steps count in which others stand in for a target that
// has had a candidate since some time. While the target or this node keeps claiming, it
// is busy.
func (ts *targets) lateFrom(a awaited, since time.Time) time.Time {
	from := earliest(later(since, later(ts.fleet.ClaimedAt(a.target), ts.busyAt)), since.Add(busyMax))
	if !a.gaveBack && !ts.fleet.Overdue(a.target) { // or there is no patience left with it
		from = from.Add(patience)
	}
	return from
}

// noneLate reports whether no target can be late with any of its candidates, and until
// when. It does not look at the candidates.
func (ts *targets) noneLate(now time.Time) (until time.Time, ok bool) {
	until = now.Add(time.Minute)
	for a, since := range ts.oldest {
		until = earliest(until, ts.lateFrom(a, since).Add(RankStep))
	}
	return until, until.After(now)
}

// sweep returns the tasks that their target should have claimed by now and has not, and
// whose turn it is for this node. The target may be about to die, or its balancer may
// refuse them. While a node keeps claiming, it is busy.
func (b *Board) sweep(now time.Time) (turn []*Candidate) {
	ts := b.targets
	if ts.foreign == 0 || now.Before(ts.sweepAt) {
		return nil
	}
	if b.self.Closed != "" {
		ts.sweepAt = now.Add(time.Second)
		return nil
	}
	if len(b.flights) > b.standIns.inFlight {
		// A node with claims in flight cannot tell whether others are late:
		// their claims wait in the same queue.
		ts.busyAt = now
	}
	if until, ok := ts.noneLate(now); ok {
		ts.sweepAt = until
		return nil
	}
	if !b.mayStandIn() {
		ts.sweepAt = now.Add(time.Second) // or as soon as an answer or an update makes room
		return nil
	}
	nodes := b.fleet.Nodes(b.self)
	next := now.Add(time.Minute)
	clear(ts.oldest)
	for c := ts.ring.next; c != &ts.ring; c = c.next {
		if !c.foreign {
			continue
		}
		ts.waitFor(c)
		if c.refusedUntil.After(now) {
			next = earliest(next, c.refusedUntil)
			continue
		}
		if t := b.tasks.Get(c.ID); t != nil && b.fleet.Braked(t.Last, now) {
			next = earliest(next, now.Add(time.Second)) // its target has the brake on as well
			continue
		}
		from := ts.lateFrom(c.awaited(), c.plannedAt)
		at := from.Add(RankStep)
		if !at.After(now) {
			if c.rank == 0 {
				c.rank = placement.Rank(c.ID, c.Kind.Class, nodes, c.target, b.self.Name)
			}
			at = from.Add(time.Duration(min(c.rank, ranksMax)) * RankStep)
		}
		if !at.After(now) {
			turn, at = append(turn, c), now.Add(RankStep)
		}
		next = earliest(next, at)
	}
	ts.sweepAt = next
	return turn
}

// earliest returns the earlier of two times.
func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
