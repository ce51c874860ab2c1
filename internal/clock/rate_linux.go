package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// tickNominal is the length of a tick of the kernel's clock in microseconds, as
// adjtimex counts them; one more or less is tickPPM.
const (
	tickNominal = 10_000
	tickPPM     = 100
)

// kernelRate reads the correction that the kernel applies; it changes nothing.
// Some containers may not ask.
func kernelRate() (r Rate, known bool) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return Rate{}, false
	}
	// The frequency has 16 bits behind the point.
	r.Kernel = float64(t.Freq)/65536 + float64(t.Tick-tickNominal)*tickPPM
	r.Synchronized = state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
	return r, true
}

// readRaw reads the clock that nothing corrects. It stands still while the
// machine is suspended.
func readRaw() (time.Duration, bool) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &ts); err != nil {
		return 0, false
	}
	return time.Duration(ts.Nano()), true
}
