//go:build !linux

package exectask

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boot is the clock of every deadline here. All processes of a host read the
// same one. On Darwin this clock runs through suspension; on other systems it
// may stand still meanwhile.
func Boot() time.Duration { return readClock(unix.CLOCK_MONOTONIC) }
