package session

import (
	"sync"
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

// slowKept is how long a slow renewal is remembered.
const slowKept = 10 * time.Minute

// slowRenewals remembers the slowest renewal of the last while. The zero value is ready to
// use.
type slowRenewals struct {
	mu sync.Mutex
	// since is when the first attempt was sent that has not succeeded, zero for none.
	since clock.Reading
	// took is how long the slowest took that counts as slow, zero for none; at is when it
	// ended.
	took time.Duration
	at   clock.Reading
}

// sent records that a renewal is attempted.
func (s *slowRenewals) sent(now clock.Reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since == (clock.Reading{}) {
		s.since = now
	}
}

// answered records that it has succeeded. It counts if it took at least so long.
func (s *slowRenewals) answered(now clock.Reading, least time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if took := now.Since(s.since); took >= least && (took >= s.took || now.Since(s.at) >= slowKept) {
		s.took, s.at = took, now
	}
	s.since = clock.Reading{}
}

// SlowestRenewal returns how long the slowest renewal within the last ten minutes took,
// from its first attempt to the broker's answer; zero if each took less than a quarter of
// Timing.Try.
func (s *Session) SlowestRenewal() time.Duration {
	s.slow.mu.Lock()
	defer s.slow.mu.Unlock()
	if s.slow.took > 0 && s.now.Read().Since(s.slow.at) >= slowKept {
		s.slow.took = 0
	}
	return s.slow.took
}
