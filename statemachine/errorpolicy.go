package statemachine

import (
	"cmp"
	"time"
)

// RetryPolicy controls the default error handler. The zero value means the defaults.
type RetryPolicy struct {
	// Errors is how many errors fail the task, the latest included. Zero or less means
	// that no number does; the maximum is RetryErrorsLimit.
	Errors int
	// Window is how far back errors count. Zero means FaultWindow.
	Window time.Duration
	// Min and Max limit the sleep after an error, which doubles with every error that
	// counts. Zero means a second and ten minutes.
	Min, Max time.Duration
}

// Defaults of a retry policy.
const (
	// FaultWindow is how far back errors count.
	FaultWindow = 4 * time.Hour
	// BackOffMin and BackOffMax limit the sleep after an error.
	BackOffMin = time.Second
	BackOffMax = 10 * time.Minute
	// RetryErrorsLimit limits RetryPolicy.Errors.
	RetryErrorsLimit = 1000
)

func (p RetryPolicy) withDefaults() RetryPolicy {
	p.Window = cmp.Or(p.Window, FaultWindow)
	p.Max = cmp.Or(p.Max, max(BackOffMax, p.Min))
	p.Min = cmp.Or(p.Min, min(BackOffMin, max(p.Max, 1)))
	return p
}

// recent counts the errors within the window. Only the last ErrorsMax are recorded; if
// all of them count, failures is the number of errors.
func (p RetryPolicy) recent(errs []ErrorEntry, failures int, now time.Time) int {
	n := 0
	for _, e := range errs {
		if now.Sub(e.Timestamp) < p.Window {
			n++
		}
	}
	if n == ErrorsMax {
		return max(n, failures)
	}
	return n
}

// Counted returns how many errors counted when the latest of them happened, zero if there
// is none. failures is Record.Failures.
func (p RetryPolicy) Counted(errs []ErrorEntry, failures int) int {
	if len(errs) == 0 {
		return 0
	}
	return p.withDefaults().recent(errs, failures, errs[len(errs)-1].Timestamp)
}

// HandleErrors is the default error handler. It makes the task sleep, for a time that
// doubles from about a second to ten minutes. It fails the task once the errors within
// the window, the latest included, reach the policy's number. failures is
// Record.Failures. random, in [0,1), spreads the sleep over its upper half, so that
// tasks which failed together do not come back together.
func (p RetryPolicy) HandleErrors(errs []ErrorEntry, failures int, now time.Time, random float64) Command {
	p = p.withDefaults()
	recent := p.recent(errs, failures, now)
	if p.Errors > 0 && recent >= p.Errors {
		text := "too many errors"
		if n := len(errs); n > 0 {
			text = errs[n-1].Error
		}
		return Fail(text)
	}
	sleep := p.Max
	if doublings := max(recent-1, 0); doublings < 40 && p.Min<<doublings>>doublings == p.Min {
		sleep = min(p.Min<<doublings, p.Max)
	}
	sleep = sleep/2 + time.Duration(random*float64(sleep/2))
	return SleepUntil(now.Add(sleep))
}

// CountFailure returns the number of failures of a record after one more error at a
// time.
func (p RetryPolicy) CountFailure(errs []ErrorEntry, failures int, now time.Time) int {
	if n := len(errs); n > 0 && now.Sub(errs[n-1].Timestamp) >= p.withDefaults().Window {
		return 1
	}
	return max(failures, len(errs)) + 1
}
