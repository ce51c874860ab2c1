package api

import (
	"sync"

	"golang.org/x/time/rate"
)

// limiter bounds the request rate of each caller. It remembers callers in two generations
// of bounded size, so that many addresses cannot fill the memory. A forgotten caller, which
// has not called for long, begins with a full bucket.
type limiter struct {
	rate  rate.Limit
	burst int

	mu       sync.Mutex
	young    map[string]*rate.Limiter
	old      map[string]*rate.Limiter
	callsMax int
}

// callersMax limits the callers of one generation.
const callersMax = 10_000

func newLimiter(l Limits) *limiter {
	return &limiter{rate: rate.Limit(l.Rate), burst: l.RateBurst, young: map[string]*rate.Limiter{}, callsMax: callersMax}
}

// allow takes one request from a caller's bucket, and reports whether there was one.
func (l *limiter) allow(caller string) bool {
	l.mu.Lock()
	bucket := l.young[caller]
	if bucket == nil {
		if bucket = l.old[caller]; bucket == nil {
			bucket = rate.NewLimiter(l.rate, l.burst)
		}
		if len(l.young) >= l.callsMax {
			l.old, l.young = l.young, map[string]*rate.Limiter{}
		}
		l.young[caller] = bucket
	}
	l.mu.Unlock()
	return bucket.Allow()
}
