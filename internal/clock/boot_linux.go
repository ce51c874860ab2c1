package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boot is the time since the machine started, suspension included. All
// processes of a machine read the same clock.
func Boot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return Process()
	}
	return time.Duration(ts.Nano())
}
