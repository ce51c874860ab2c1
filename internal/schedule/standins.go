package schedule

import (
	"time"

	"github.com/windlass-go/windlass/placement"
)

// standIns are the claims on tasks that another node should have claimed by now. That
// it has not may be what a copy shows that is behind, and then every such claim is in
// vain, and costs those whose copies are the more for it. So each is a probe first, like
// the packets of a TCP connection that has just begun (RFC 5681, slow start): one may be
// under way, and one more for each that was granted, until one is refused.
type standIns struct {
	// window is how many may be under way, inFlight how many are.
	window, inFlight int
	// barred is set when there was no room for one.
	barred bool
}

// mayStandIn reports whether another claim in another node's stead may be made. None is
// made while the copy is known to be behind.
func (b *Board) mayStandIn() bool {
	s := &b.standIns
	s.barred = s.inFlight >= s.window || b.candidates.doubts > 0 || b.Lag.Behind(b.tasks.Revision())
	return !s.barred
}

// standAgain has those looked at again for which there was no room, once there is: it
// means to look at all that others should claim.
func (b *Board) standAgain() {
	if b.standIns.barred && b.mayStandIn() {
		b.targets.sweepAt = time.Time{}
	}
}

// answered takes what the answer to a claim says about claims in others' stead.
func (s *standIns) answered(a Answer) {
	s.inFlight--
	switch a {
	case Granted:
		s.window++
	case Taken:
		s.window = 1
	}
}

// Times that others wait for the target of a task.
const (
	// patience is how much longer than RankStep they all wait for a node that has not
	// let them down: it may have just come, or be on a busy machine, and what others
	// take from it comes back to it later, which interrupts it once more.
	patience = 2 * time.Second
	// ranksMax bounds the ranks that wait one after the other; whoever comes
	// later claims together with them.
	ranksMax = 40
	// busyMax bounds for how long a node that goes on claiming other tasks is
	// waited for.
	busyMax = 10 * time.Second
)

// awaited is a way in which candidates are waited for.
type awaited struct {
	// target is the node that should claim them.
	target string
	// gaveBack is set if the target is the one that held them last: it has given them
	// back, for others to have first.
	gaveBack bool
}

func (c *Candidate) awaited() awaited {
	return awaited{target: c.target, gaveBack: c.target == c.lastOwner}
}

// waitFor notes since when the target of a candidate is waited for.
func (ts *targets) waitFor(c *Candidate) {
	if since, ok := ts.oldest[c.awaited()]; !ok || c.plannedAt.Before(since) {
		ts.oldest[c.awaited()] = c.plannedAt
	}
}

// lateFrom is from when the steps count in which others stand in for a target
// that has had a candidate since some time: while it goes on claiming, or this
// node does, it has much to do.
func (ts *targets) lateFrom(a awaited, since time.Time) time.Time {
	from := earliest(later(since, later(ts.fleet.ClaimedAt(a.target), ts.busyAt)), since.Add(busyMax))
	if !a.gaveBack && !ts.fleet.Overdue(a.target) { // or there is no patience left with it
		from = from.Add(patience)
	}
	return from
}

// noneLate reports whether no target can be late with any of its candidates, and
// until when. It does not look at the candidates.
func (ts *targets) noneLate(now time.Time) (until time.Time, ok bool) {
	until = now.Add(time.Minute)
	for a, since := range ts.oldest {
		until = earliest(until, ts.lateFrom(a, since).Add(RankStep))
	}
	return until, until.After(now)
}

// sweep finds the tasks that their target should have claimed by now and has
// not, and whose turn it is for this node: it may be about to die, or its
// balancer may refuse them. While a node goes on claiming it has much to do.
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
		// Whoever has claims of its own under way cannot say that others are late:
		// theirs stand in the same queue.
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

// earliest is the earlier of two times.
func earliest(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// later is the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
