package windlass

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/statemachine"
)

// Duration is a time.Duration that is text in JSON, such as "1h30m".
type Duration time.Duration

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("duration %s: must be text such as \"1h30m\"", shorten.To(string(text), 80))
	}
	parsed, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("duration %q: must be text such as \"1h30m\"", shorten.To(s, 80))
	}
	*d = Duration(parsed)
	return nil
}

// Retry says what becomes of a task whose handler fails, unless its type has an
// error handler. Its zero value stands for the defaults.
type Retry struct {
	// Errors is how many errors within Window fail the task for good, the latest
	// included, at most statemachine.RetryErrorsLimit; -1 means that none does. Zero
	// means 25 for a job of the tree, which comes to about two hours, and none for
	// any other task: it is run again for as long as it takes.
	Errors int `json:"errors,omitempty"`
	// Window is how far back errors count. Zero means 4 h.
	Window Duration `json:"window,omitempty"`
	// Min and Max bound the time that the task sleeps after an error, which
	// doubles with every one that counts and varies by half. Zero means 1 s and
	// 10 min.
	Min Duration `json:"min,omitempty"`
	Max Duration `json:"max,omitempty"`
}

// jobErrorsMax is how many errors fail a job that says nothing about it: others wait
// for it, and its failure is something that a tree knows what to do about.
const jobErrorsMax = 25

// retryPolicy is what the default error handler goes by.
func (s *Spec) retryPolicy() statemachine.RetryPolicy {
	var r Retry
	if s.Retry != nil {
		r = *s.Retry
	}
	if r.Errors == 0 && s.Job {
		r.Errors = jobErrorsMax
	}
	return statemachine.RetryPolicy{
		Errors: r.Errors, Window: time.Duration(r.Window), Min: time.Duration(r.Min), Max: time.Duration(r.Max),
	}
}

func (r *Retry) validate() error {
	if r == nil {
		return nil
	}
	if r.Errors < -1 || r.Errors > statemachine.RetryErrorsLimit {
		return badInput("retry errors", r.Errors, fmt.Sprintf("must be from 1 to %d, 0 for the default, or -1 for no limit", statemachine.RetryErrorsLimit))
	}
	for field, d := range map[string]Duration{"retry window": r.Window, "retry min": r.Min, "retry max": r.Max} {
		if d < 0 || time.Duration(d) > TimeoutMax {
			return badInput(field, time.Duration(d), fmt.Sprintf("must be from 0 to %v", TimeoutMax))
		}
	}
	if r.Max != 0 && r.Min > r.Max {
		return badInput("retry min", time.Duration(r.Min), fmt.Sprintf("must be at most retry max, %v", time.Duration(r.Max)))
	}
	return nil
}

// Fault is a task whose handler has failed, for an ErrorHandler.
type Fault struct {
	// ID and Spec are the task's. The spec's maps and slices must not be modified.
	ID   string
	Spec Spec
	// Task is what NewTask made of it.
	Task Task
	// Err is the latest error as the handler returned it, for errors.Is and
	// errors.As; nil if that was on another node, which died before it asked.
	Err error
	// Errors are the latest, the oldest first, at most statemachine.ErrorsMax,
	// Failures how many there were in a row, those that are not kept included.
	Errors   []statemachine.ErrorEntry
	Failures int
	// Now is the time to count from.
	Now time.Time
}

// ErrorHandler decides what becomes of a task whose handler has failed: Run,
// Sleep with its time, Error to fail it for good, or Kill. The text of an Error is
// kept as the last of the task's errors, unless it repeats the last one.
// Interruptions are no errors and are not counted. It is called by the node's loop
// and must not block; after a panic, and for anything else that it returns, the
// default decides.
type ErrorHandler func(Fault) statemachine.Command
