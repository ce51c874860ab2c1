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

// UnmarshalJSON implements json.Unmarshaler. Its error reads well after the name of the field.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	err := json.Unmarshal(text, &s)
	var parsed time.Duration
	if err == nil {
		parsed, err = time.ParseDuration(s)
	}
	if err != nil {
		return fmt.Errorf(`must be a duration such as "1h30m", not %s`, shorten.To(string(text), 80))
	}
	*d = Duration(parsed)
	return nil
}

// Retry controls what happens after a task's handler fails, unless the task's type has
// an error handler. Its zero value means the defaults.
type Retry struct {
	// Errors is how many errors within Window fail the task for good, the latest
	// included. The maximum is statemachine.RetryErrorsLimit; -1 means that no number
	// does. Zero means 25 for a job of the tree, which comes to about two hours. For
	// any other task zero means no limit: it runs again for as long as it takes.
	Errors int `json:"errors,omitempty"`
	// Window is how far back errors count. Zero means 4 h.
	Window Duration `json:"window,omitempty"`
	// The task sleeps after an error: between half of Min and Min after the first, twice
	// as long after every further error that counts, between half of Max and Max at
	// most. Zero means 1 s and 10 min.
	Min Duration `json:"min,omitempty"`
	Max Duration `json:"max,omitempty"`
	// Deaths is with how many deaths within an hour, of the processes that run it, the task
	// fails as the culprit, if each came within ten seconds of its claim and no other task
	// explains them. With deaths that come later it fails once chance does not explain them,
	// which takes more. The maximum is DeathsMax; -1 means that no number fails it. Zero
	// means DeathsDefault.
	Deaths int `json:"deaths,omitempty"`
}

// jobErrorsMax is the default of Retry.Errors for a job: other jobs wait for it, and a
// tree knows how to handle a failure.
const jobErrorsMax = 25

// RetryPolicy returns the policy that the default error handler follows.
func (s *Spec) RetryPolicy() statemachine.RetryPolicy {
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
	if r.Deaths < -1 || r.Deaths > DeathsMax {
		return badInput("retry deaths", r.Deaths, fmt.Sprintf("must be from 1 to %d, 0 for the default of %d, or -1 for no limit", DeathsMax, DeathsDefault))
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

// Fault describes a task whose handler has failed, for an ErrorHandler.
type Fault struct {
	// ID and Spec are those of the task. The spec's maps and slices must not be
	// modified.
	ID   string
	Spec Spec
	// Task is the task that NewTask made.
	Task Task
	// Err is the latest error as the handler returned it, for errors.Is and errors.As.
	// It is nil if the error occurred on another node, which died before it called its
	// error handler.
	Err error
	// Errors lists the latest errors, the oldest first, at most statemachine.ErrorsMax.
	// Failures is how many errors there were in a row, including those not kept.
	Errors   []statemachine.ErrorEntry
	Failures int
	// Now is the time to count from.
	Now time.Time
}

// ErrorHandler decides what happens to a task whose handler has failed: Run, Sleep with
// its time, Error to fail it for good, or Kill. The text of an Error is kept as the
// last of the task's errors, unless it repeats the last one. Interruptions are not
// errors and are not counted. The node's loop calls the function, so it must not block.
// If it panics or returns anything else, the default decides.
type ErrorHandler func(Fault) statemachine.Command

// decideFault asks the error handler of the task's type. If that panics or decides what
// it must not, decideFault returns the problem and the default decision.
func (c Config) decideFault(f Fault, byDefault func() statemachine.Command) (decision statemachine.Command, problem error) {
	handler := c.errorHandler(f.Spec.Type)
	if handler == nil {
		return byDefault(), nil
	}
	defer func() {
		if v := recover(); v != nil {
			decision, problem = byDefault(), fmt.Errorf("the error handler panicked: %v", v)
		}
	}()
	decision = handler(f)
	err := decision.Validate()
	if _, refused := statemachine.Next(statemachine.Fault, decision.Message); err == nil {
		err = refused
	}
	if err != nil {
		return byDefault(), fmt.Errorf("the error handler decided what cannot be: %w", err)
	}
	return decision, nil
}
