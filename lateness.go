package windlass

import (
	"math/bits"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// lateKept is how long a copy must have been less behind for others to be told. Each time
// that they are costs every node a message.
const lateKept = 30 * time.Second

// lateness is by how much the node's copy of the tasks is behind: how long after a claim
// was granted the copy shows it. One claim at a time is timed, as TCP times one segment
// for each round trip (RFC 6298).
type lateness struct {
	// newest is the newest token that was granted here; timed the one that is waited for,
	// zero for none, and since when.
	newest, timed broker.Revision
	since         time.Time
	// told is what others are told, zero for nothing; reachedAt when it was last as much.
	told      time.Duration
	reachedAt time.Time
}

// granted takes a claim that was granted, and the revision that the copy has reached: it
// may have shown the claim before the answer came.
func (l *lateness) granted(token, revision broker.Revision, now time.Time) {
	l.newest = max(l.newest, token)
	if l.timed == 0 && token > revision {
		l.timed, l.since = token, now
	}
}

// shown takes the revision that the copy has reached.
func (l *lateness) shown(revision broker.Revision, now time.Time) {
	if l.timed != 0 && revision >= l.timed {
		l.note(now)
		l.timed = 0
	}
}

// note takes for how long the copy has not shown what is timed.
func (l *lateness) note(now time.Time) {
	if late := inPowers(now.Sub(l.since)); late > 0 && late >= l.told {
		l.told, l.reachedAt = late, now
	}
}

// step says what others should be told now.
func (l *lateness) step(now time.Time) time.Duration {
	if l.timed != 0 {
		l.note(now)
	}
	if now.Sub(l.reachedAt) >= lateKept {
		l.told = 0
	}
	return l.told
}

// next is when that may become something else, zero for not by itself.
func (l *lateness) next() (at time.Time) {
	if l.told > 0 {
		at = l.reachedAt.Add(lateKept)
	}
	if l.timed == 0 {
		return at
	}
	if more := l.since.Add(max(2*l.told, time.Second)); at.IsZero() || more.Before(at) {
		return more
	}
	return at
}

// inPowers is the largest power of two in seconds that is not above d, zero below one.
func inPowers(d time.Duration) time.Duration {
	if s := uint64(max(d, 0) / time.Second); s > 0 {
		return time.Second << (bits.Len64(s) - 1)
	}
	return 0
}

// lateStep tells the others how late this node hears of what they do.
func (in *incarnation) lateStep(now time.Time) {
	if in.closing || in.lost {
		return
	}
	behind := ""
	if late := in.late.step(now); late > 0 {
		behind = late.String()
	}
	if behind != in.info.Behind {
		in.info.Behind = behind
		in.out.publishInfo()
	}
}
