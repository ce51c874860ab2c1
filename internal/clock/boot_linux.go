package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boot is the time since the machine started, suspension included. All
// processes of a machine read the same clock.
func Boot() time.Duration { return read(unix.CLOCK_BOOTTIME) }
