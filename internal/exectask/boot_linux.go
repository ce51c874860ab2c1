package exectask

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boot is the clock of every deadline here: time since the machine started,
// suspension included. All processes of a host read the same one, so a reading
// taken by the node means the same to the supervisor.
func Boot() time.Duration { return readClock(unix.CLOCK_BOOTTIME) }
