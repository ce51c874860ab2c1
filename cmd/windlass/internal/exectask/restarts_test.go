package exectask

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass/statemachine"
)

func TestRestarts_InARowAreThoseOfRunsThatDoNotLast(t *testing.T) {
	var r restarts
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	began := now
	for n, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		wait := r.ended(now, time.Millisecond, "exited: exit code 1")
		if wait != want*time.Second || r.Count != n+1 || r.InARow != n+1 || !r.Since.Equal(began) || !r.LastAt.Equal(now) || !r.Next.Equal(now.Add(wait)) {
			t.Errorf("restart %d: pause %s, %+v", n+1, wait, r.Restarts)
		}
		if r.Looping() != (n >= 4) {
			t.Errorf("restart %d: looping is %v", n+1, r.Looping())
		}
		now = r.Next
	}
	now = now.Add(2 * restartReset)
	if wait := r.ended(now, 2*restartReset, "exited: exit code 2"); wait != restartMin || r.Count != 9 || r.InARow != 1 || !r.Since.Equal(now) || r.LastEnd != "exited: exit code 2" {
		t.Errorf("after a run that lasted: pause %s, %+v", wait, r.Restarts)
	}
}

func TestRestarts_ARunThatLastsIsRecordedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var recorded []statemachine.Restarts
		run := func(r restarts, lasts time.Duration) {
			stop := r.whenLasting(func(r statemachine.Restarts) { recorded = append(recorded, r) })
			time.Sleep(lasts)
			stop()
		}
		var r restarts
		run(r, 2*restartReset) // which follows no restart
		r.ended(time.Now(), 0, "exited: exit code 1")
		run(r, restartReset-1)
		if len(recorded) > 0 {
			t.Errorf("%+v is recorded too soon", recorded)
		}
		run(r, 2*restartReset)
		if len(recorded) != 1 || recorded[0].InARow != 0 || recorded[0].Count != 1 || recorded[0].LastEnd != r.LastEnd {
			t.Errorf("%+v is recorded", recorded)
		}
	})
}
