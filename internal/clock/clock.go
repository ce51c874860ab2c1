// Package clock reads the clocks that deadlines are kept by.
//
// A session's deadline must not be fooled by a machine that was suspended: Go's
// own monotonic clock stops then (CLOCK_MONOTONIC on Linux), while the broker's
// goes on. Boot does not stop, and its readings mean the same in every process
// of a machine. Where the system offers no such clock it falls back to another,
// and a suspended machine is found out only by the broker's refusals.
//
// Both functions are a Clock, so that tests in virtual time can pass Process,
// which follows the time of a testing/synctest bubble.
package clock

import "time"

// Clock returns the time since some fixed moment. It never goes back.
type Clock func() time.Duration

// processStart anchors Process. Only differences of readings have a meaning.
var processStart = time.Now()

// Process is the time since the process started by Go's monotonic clock.
func Process() time.Duration { return time.Since(processStart) }
