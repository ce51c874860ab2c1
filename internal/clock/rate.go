package clock

import (
	"context"
	"errors"
	"time"
)

// Rate is how fast the clock of Boot runs, compared with the machine's own
// oscillator that nothing corrects. A broker's machine has an oscillator of its
// own; that each stays near the truth is all that deadlines assume of them.
type Rate struct {
	// PPM is the deviation as it was measured, in parts per million.
	PPM float64
	// Kernel is the correction that the kernel applies to its clocks, in parts
	// per million, what it does for a while to remove an offset not included.
	// KernelKnown tells that it could be read.
	Kernel      float64
	KernelKnown bool
	// Synchronized tells that a time service keeps the time of day, by which alone a
	// virtual machine learns for how long its host stopped it.
	Synchronized bool
}

// ErrNoRate: this system has no clock to compare with.
var ErrNoRate = errors.New("this system has no uncorrected clock to compare with")

// MeasureRate compares the clocks over a while; a second is precise to about one
// part per million.
func MeasureRate(ctx context.Context, over time.Duration) (Rate, error) {
	r, known := kernelRate()
	rawBefore, bootBefore, ok := pair()
	if !ok {
		return Rate{}, ErrNoRate
	}
	timer := time.NewTimer(over)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return Rate{}, ctx.Err()
	}
	rawAfter, bootAfter, _ := pair()
	raw, boot := rawAfter-rawBefore, bootAfter-bootBefore
	if raw <= 0 {
		return Rate{}, ErrNoRate
	}
	r.KernelKnown = known
	r.PPM = float64(boot-raw) / float64(raw) * 1e6
	return r, nil
}

// pairAttempts is how many readings pair chooses from: one that the scheduler
// interrupted says nothing.
const pairAttempts = 32

// pair reads the uncorrected clock and the one of Boot at the same moment, as
// near as can be.
func pair() (raw, boot time.Duration, ok bool) {
	best := time.Duration(-1)
	for range pairAttempts {
		before, ok := readRaw()
		if !ok {
			return 0, 0, false
		}
		now := Boot()
		after, _ := readRaw()
		if gap := after - before; best < 0 || gap < best {
			best, raw, boot = gap, before+gap/2, now
		}
	}
	return raw, boot, true
}
