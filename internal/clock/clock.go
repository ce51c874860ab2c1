// Package clock reads the clocks that deadlines are kept by.
//
// A session's deadline must not be fooled by a machine that stood still. Go's own
// monotonic clock stops while a machine is suspended (CLOCK_MONOTONIC on Linux);
// Boot does not. Of a virtual machine that its host stopped for a while, to copy
// or to move it, Boot does not tell either: there only the time of day does, once
// somebody sets it right. So a Clock reads both, and what passed is what the one
// says that says more. Where the system offers no clock like Boot it falls back to
// another, and a suspended machine is found out by the time of day alone.
//
// Readings mean the same in every process of a machine. Machine and Process are
// both a Clock, so that tests in virtual time can pass Process, which follows the
// time of a testing/synctest bubble.
package clock

import "time"

// Clock reads two clocks: boot is the time since some fixed moment and never goes
// back, day is the time of day since some other, which is set now and then.
type Clock func() (boot, day time.Duration)

// Reading is what the two clocks said at one moment.
type Reading struct{ Boot, Day time.Duration }

// Read reads the clocks.
func (c Clock) Read() Reading {
	boot, day := c()
	return Reading{boot, day}
}

// Since is how much time has passed since an earlier reading. A time of day that
// was set back says nothing, and one that was set forward counts as time that
// passed: which of the two clocks was wrong cannot be known.
func (r Reading) Since(earlier Reading) time.Duration {
	return max(r.Boot-earlier.Boot, r.Day-earlier.Day)
}

// Machine reads the clocks of the machine.
func Machine() (boot, day time.Duration) {
	return Boot(), time.Duration(time.Now().UnixNano())
}

// processStart anchors Process. Only differences of readings have a meaning.
var processStart = time.Now()

// Process reads Go's clocks: the monotonic one since the process started, and the
// time of day.
func Process() (boot, day time.Duration) {
	now := time.Now()
	return now.Sub(processStart), time.Duration(now.UnixNano())
}
