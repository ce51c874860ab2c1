package statemachine

import "time"

// Decision is what an error handler makes of a fault: a message for the state
// machine, with the time that a sleep needs.
type Decision struct {
	Message Message
	Until   time.Time
}

// Parameters of the default error handler.
const (
	// FaultWindow is how far back errors count.
	FaultWindow = 4 * time.Hour
	// backOffMin and backOffMax bound the sleep after an error; it doubles
	// with every error of the window.
	backOffMin = time.Second
	backOffMax = 10 * time.Minute
)

// HandleErrors is the default error handler: sleep, for a time that doubles
// from about a second to ten minutes, and fail the task when there were
// ErrorsMax errors within FaultWindow, the latest included. random, in [0,1),
// spreads the sleep over its upper half, so that tasks which failed together do
// not come back together.
func HandleErrors(errs []ErrorEntry, now time.Time, random float64) Decision {
	recent := 0
	for _, e := range errs {
		if now.Sub(e.Timestamp) < FaultWindow {
			recent++
		}
	}
	if recent >= ErrorsMax {
		return Decision{Message: Error}
	}
	sleep := backOffMin << max(recent-1, 0)
	sleep = min(sleep, backOffMax)
	sleep = sleep/2 + time.Duration(random*float64(sleep/2))
	return Decision{Message: Sleep, Until: now.Add(sleep)}
}
