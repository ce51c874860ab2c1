package session

import (
	"fmt"
	"time"
)

// Limits and default of the TTL, the only setting.
const (
	// TTLDefault is used where no TTL is configured.
	TTLDefault = 15 * time.Second
	// TTLMin is the shortest TTL: below it, a single election of the broker's
	// members would end every session.
	TTLMin = 5 * time.Second
	// TTLMax is the longest TTL. etcd checkpoints only leases longer than this, and a
	// checkpoint can make a lease expire early.
	TTLMax = 300 * time.Second
)

// Timing has all times that derive from a session's TTL.
type Timing struct {
	// TTL is the TTL that the broker granted.
	TTL time.Duration
	// Renew is the time between the sending of two renewals.
	Renew time.Duration
	// Try limits one attempt to renew.
	Try time.Duration
	// Grace is how long a handler has to return after its context ended.
	Grace time.Duration
	// Slack is how late a timer may fire, and how long killing may take.
	Slack time.Duration
	// Drift is the allowance for clocks of different rates.
	Drift time.Duration
	// Stop is the age of a renewal at which handlers are told to stop.
	// Invariant: Stop + Grace + Slack + Drift == TTL.
	Stop time.Duration
	// Hard is the age at which handlers must have returned: Stop + Grace.
	Hard time.Duration
	// Claim is the time that must be left before Stop for anything to start.
	Claim time.Duration
}

// Derive computes the timing for a granted TTL. For the default of 15 s: a
// renewal every 3 s that may take 2 s, stop 10 s after the last good one, 4 s
// of grace, 1 s of slack.
func Derive(ttl time.Duration) Timing {
	t := Timing{
		TTL:   ttl,
		Renew: min(ttl/5, 10*time.Second),
		Try:   min(2*ttl/15, 5*time.Second),
		Grace: min(4*ttl/15, 20*time.Second),
		Slack: min(ttl/15, 2*time.Second),
		Drift: ttl / 1000,
	}
	t.Hard = t.TTL - t.Drift - t.Slack
	t.Stop = t.Hard - t.Grace
	t.Claim = min(t.Stop/3, 10*time.Second)
	return t
}

// String prints every derived value.
func (t Timing) String() string {
	r := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	return fmt.Sprintf("ttl=%v renew=%v try=%v stop=%v grace=%v hard=%v slack=%v drift=%v claim=%v",
		r(t.TTL), r(t.Renew), r(t.Try), r(t.Stop), r(t.Grace), r(t.Hard), r(t.Slack), r(t.Drift), r(t.Claim))
}

// CheckTTL returns an error for a TTL out of range. Zero is allowed and means the
// default.
func CheckTTL(ttl time.Duration) error {
	if ttl != 0 && (ttl < TTLMin || ttl > TTLMax) {
		return fmt.Errorf("session TTL %v: must be between %v and %v", ttl, TTLMin, TTLMax)
	}
	return nil
}
