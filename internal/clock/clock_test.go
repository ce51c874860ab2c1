package clock

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBoot_NeverGoesBack(t *testing.T) {
	last := Boot()
	for range 1000 {
		now := Boot()
		if now < last {
			t.Fatalf("went from %v to %v", last, now)
		}
		last = now
	}
}

func TestProcess_FollowsVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := Process()
		time.Sleep(time.Hour)
		if got := Process() - start; got != time.Hour {
			t.Errorf("an hour of virtual time read as %v", got)
		}
	})
}
