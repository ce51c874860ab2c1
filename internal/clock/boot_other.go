//go:build unix && !linux

package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boot is the time since some moment before the machine's processes started;
// all of them read the same clock. On Darwin it runs through suspension; on
// other systems it may stand still meanwhile.
func Boot() time.Duration { return read(unix.CLOCK_MONOTONIC) }
