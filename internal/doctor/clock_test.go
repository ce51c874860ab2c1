package doctor

import (
	"testing"

	"github.com/windlass-go/windlass/internal/clock"
)

func TestClock_IsJudgedByTheDriftThatDeadlinesAllowFor(t *testing.T) {
	if driftPPM != 1000 {
		t.Errorf("deadlines allow for %v ppm", driftPPM)
	}
	for _, c := range []struct {
		rate clock.Rate
		want Status
	}{
		{clock.Rate{}, OK},
		{clock.Rate{PPM: -40, Kernel: -38, KernelKnown: true, Synchronized: true}, OK},
		{clock.Rate{PPM: 520}, Warning},
		{clock.Rate{PPM: 3, Kernel: -600, KernelKnown: true}, Warning},
		{clock.Rate{PPM: -1000}, Problem},
		{clock.Rate{PPM: 20, Kernel: 2000, KernelKnown: true}, Problem},
	} {
		if got := judgeClock(c.rate, nil); got.Status != c.want || (c.want == OK) != (got.Do == "") {
			t.Errorf("%+v: %+v", c.rate, got)
		}
	}
	if got := judgeClock(clock.Rate{}, clock.ErrNoRate); got.Status != Unknown {
		t.Errorf("%+v", got)
	}
	if got := Clock(t.Context()); got.Name != CheckClock || got.Found == "" {
		t.Errorf("%+v", got)
	} else {
		t.Log(got.Found)
	}
}
