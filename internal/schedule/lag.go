package schedule

import (
	"math/bits"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// lagKept is how long a copy must have been less behind for others to be told. Each time
// that they are costs every node a message.
const lagKept = 30 * time.Second

// Lag is by how much the node's copy of the tasks is behind: how long after a claim was
// granted the copy shows it. One claim at a time is timed, as TCP times one segment for
// each round trip (RFC 6298). The zero value is ready.
type Lag struct {
	// newest is the newest token that was granted here. timed is the one that is waited
	// for since a time, zero for none.
	newest, timed broker.Revision
	since         time.Time
	// told is what others are told, zero for nothing; reachedAt is when it was last as
	// much.
	told      time.Duration
	reachedAt time.Time
}

// Granted notes a claim that was granted when the copy had reached a revision: it may
// have shown the claim before the answer came.
func (l *Lag) Granted(token, revision broker.Revision, now time.Time) {
	l.newest = max(l.newest, token)
	if l.timed == 0 && token > revision {
		l.timed, l.since = token, now
	}
}

// Shown notes the revision that the copy has reached.
func (l *Lag) Shown(revision broker.Revision, now time.Time) {
	if l.timed != 0 && revision >= l.timed {
		l.note(now)
		l.timed = 0
	}
}

// Behind reports whether the copy, at a revision, is known to lack something.
func (l *Lag) Behind(revision broker.Revision) bool { return revision < l.newest }

// note takes for how long the copy has not shown what is timed.
func (l *Lag) note(now time.Time) {
	if late := inPowers(now.Sub(l.since)); late > 0 && late >= l.told {
		l.told, l.reachedAt = late, now
	}
}

// Told is by how much the copy is behind for others to know: a power of two in seconds,
// zero for less than one.
func (l *Lag) Told(now time.Time) time.Duration {
	if l.timed != 0 {
		l.note(now)
	}
	if now.Sub(l.reachedAt) >= lagKept {
		l.told = 0
	}
	return l.told
}

// Next is when that may become something else, zero for not by itself.
func (l *Lag) Next() (at time.Time) {
	if l.told > 0 {
		at = l.reachedAt.Add(lagKept)
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
