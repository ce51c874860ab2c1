//go:build !linux

package clock

import "time"

// Boot is Process where the system has no clock that runs through suspension.
func Boot() time.Duration { return Process() }
