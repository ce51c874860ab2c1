package zookeeper

import (
	"testing"
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

// A server may have heard late of a request that was sent early, and have had no time
// to tell its leader.
func TestTouch_CountsWhenItWasAnswered(t *testing.T) {
	b := &Broker{config: Config{TickTime: 200 * time.Millisecond}, start: clock.Boot()}
	s := &session{broker: b, timeout: 10 * time.Second}
	s.touched(2*time.Second, 5910*time.Millisecond)
	s.touched(3*time.Second, 5950*time.Millisecond)
	if got, want := s.ttl(6*time.Second), 4*time.Second; got != want {
		t.Errorf("%v are left, want %v: nothing was answered half a tick before the renewal", got, want)
	}
	if got, want := s.ttl(6020*time.Millisecond), 5980*time.Millisecond; got != want {
		t.Errorf("%v are left, want %v: the first was", got, want)
	}
	if s.connected = 7 * time.Second; s.ttl(6*time.Second) > s.timeout {
		t.Errorf("%v are left of %v", s.ttl(6*time.Second), s.timeout)
	}
}
