package schedule

import (
	"math/bits"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// lagKept is how long the lag of a copy must have been smaller before a smaller one is
// published. Each publication costs every node a message.
const lagKept = 30 * time.Second

// Lag is how far the node's copy of the tasks lags behind: the time from the grant of a
// claim until the copy shows it. One claim at a time is timed, as TCP times one segment
// for each round trip (RFC 6298). The zero value is ready to use.
type Lag struct {
	// newest is the newest token that was granted here. timed is the token that is
	// waited for since a time, zero for none.
	newest, timed broker.Revision
	since         time.Time
	// told is the published lag, zero for none; reachedAt is when the lag was last as
	// large.
	told      time.Duration
	reachedAt time.Time
}

// Granted records a claim that was granted when the copy had reached a revision: it may
// have shown the claim before the answer came.
func (l *Lag) Granted(token, revision broker.Revision, now time.Time) {
	l.newest = max(l.newest, token)
	if l.timed == 0 && token > revision {
		l.timed, l.since = token, now
	}
}

// Shown records the revision that the copy has reached.
func (l *Lag) Shown(revision broker.Revision, now time.Time) {
	if l.timed != 0 && revision >= l.timed {
		l.note(now)
		l.timed = 0
	}
}

// Behind reports whether the copy, at a revision, is known to lack something.
func (l *Lag) Behind(revision broker.Revision) bool { return revision < l.newest }

// note records how long the copy has not shown the timed claim.
func (l *Lag) note(now time.Time) {
	if late := inPowers(now.Sub(l.since)); late > 0 && late >= l.told {
		l.told, l.reachedAt = late, now
	}
}

// Told returns the lag to publish: a power of two in seconds, zero below one.
func (l *Lag) Told(now time.Time) time.Duration {
	if l.timed != 0 {
		l.note(now)
	}
	if now.Sub(l.reachedAt) >= lagKept {
		l.told = 0
	}
	return l.told
}

// Next returns when that may change by itself, zero for never.
func (l *Lag) Next() (at time.Time) {
	if l.told > 0 {
		at = l.reachedAt.Add(lagKept)
	}
	if l.timed != 0 {
		at = soonest(at, l.since.Add(max(2*l.told, time.Second)))
	}
	return at
}

// inPowers returns the largest power of two in seconds that is not above d, zero below
// one.
func inPowers(d time.Duration) time.Duration {
	if s := uint64(max(d, 0) / time.Second); s > 0 {
		return time.Second << (bits.Len64(s) - 1)
	}
	return 0
}
