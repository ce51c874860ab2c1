package schedule

import (
	"testing"
	"time"
)

func TestLag_IsPublishedInPowersOfTwoAndForHalfAMinute(t *testing.T) {
	var l Lag
	l.Granted(10, 9, start)
	for _, tt := range []struct {
		at, told time.Duration
	}{{0, 0}, {time.Second - 1, 0}, {time.Second, time.Second}, {3 * time.Second, 2 * time.Second}, {9 * time.Second, 8 * time.Second}} {
		if got := l.Told(after(tt.at)); got != tt.told {
			t.Errorf("after %v it publishes %v, want %v", tt.at, got, tt.told)
		}
	}
	if !l.Behind(9) || l.Behind(10) {
		t.Error("want the copy to lack the claim until it reaches its revision")
	}
	l.Shown(10, after(10*time.Second))
	if got := l.Told(after(10*time.Second + lagKept - 1)); got != 8*time.Second {
		t.Errorf("before half a minute has passed it publishes %v", got)
	}
	if got := l.Told(after(10*time.Second + lagKept)); got != 0 || !l.Next().IsZero() {
		t.Errorf("after half a minute it publishes %v, and the next change is at %v", got, l.Next())
	}
}

func TestLag_AClaimThatTheCopyShowedBeforeItsAnswerIsNotTimed(t *testing.T) {
	var l Lag
	l.Granted(10, 10, start)
	if got := l.Told(after(time.Hour)); got != 0 || l.Behind(10) {
		t.Errorf("it publishes %v", got)
	}
}
