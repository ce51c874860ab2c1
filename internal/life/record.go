package life

import (
	"encoding/json"
	"time"

	"github.com/windlass-go/windlass/statemachine"
)

// Record is the part of a task's record that changes while it is held.
type Record struct {
	State    statemachine.State
	Until    *time.Time
	Errors   []statemachine.ErrorEntry
	Failures int
	Result   json.RawMessage
	// TypePaused is true if it is paused because its type is.
	TypePaused bool
	// Command is the revision of the last command that changed the state.
	Command int64
	// Unknown is what a newer version wrote.
	Unknown string
}

// RecordOf returns the record of a task as it is stored.
func RecordOf(r statemachine.Record) Record {
	return Record{
		State: r.State, Until: r.Until, Errors: r.Errors, Failures: r.Failures, Result: r.Result,
		TypePaused: r.TypePaused, Command: r.Command, Unknown: r.Unknown,
	}
}

// Stored returns the record as it is to be stored.
func (r *Record) Stored() statemachine.Record {
	return statemachine.Record{
		State: r.State, Until: r.Until, Errors: r.Errors, Failures: r.Failures, Result: r.Result,
		TypePaused: r.TypePaused && r.State == statemachine.Paused, Command: r.Command, Unknown: r.Unknown,
	}
}

// Next is what a node does with a held task that no handler runs.
type Next uint8

// What may be next.
const (
	// Start: its handler is started.
	Start Next = iota
	// Remove: it has ended, and what is left of it is deleted. No node runs such a task.
	Remove
	// Wait: it is held until its time has come.
	Wait
	// Wake: that it is runnable is stored, and then it runs.
	Wake
	// Stay: it is held until a command says otherwise.
	Stay
	// Decide: what follows from its last error is to be decided.
	Decide
)

var nextNames = []string{"start", "remove", "wait", "wake", "stay", "decide"}

// String returns the name of what is next.
func (n Next) String() string { return nextNames[n] }

// Next returns what is to be done with a task at a time. typePaused is true while its type is paused.
func (r *Record) Next(now time.Time, typePaused bool) Next {
	switch {
	case r.State.Terminal():
		return Remove
	case r.State == statemachine.Sleeping && r.Until.After(now):
		return Wait
	case r.State == statemachine.Sleeping, r.State == statemachine.Paused && r.TypePaused && !typePaused:
		return Wake
	case r.State == statemachine.Paused:
		return Stay
	case r.State == statemachine.Fault:
		return Decide
	}
	return Start
}

// Wake makes a task runnable that slept or was paused, or paused with its type if that is paused.
func (r *Record) Wake(typePaused bool) {
	r.State, r.Until, r.TypePaused = statemachine.Runnable, nil, typePaused
	if typePaused {
		r.State = statemachine.Paused
	}
}

// End ends a task for good, in a terminal state.
func (r *Record) End(s statemachine.State) Deed {
	r.State, r.Until = s, nil
	return End
}

// Deed is what a message makes of the claim on a task, once its record has changed.
type Deed uint8

// The deeds.
const (
	// Continue: nothing is stored, and the task goes on as it was.
	Continue Deed = iota
	// Save: the record is stored, and the claim kept.
	Save
	// End: the record is stored for good, and the claim is over.
	End
	// Yield: the claim is given back, and others may have it first.
	Yield
	// Err: what the message says is an error of the task.
	Err
)

var deedNames = []string{"continue", "save", "end", "give back", "error"}

// String returns the name of the deed.
func (d Deed) String() string { return deedNames[d] }

// Apply changes the record by a message, and returns what is to be done. It returns a *statemachine.TransitionError, and
// leaves the record as it is, if the state does not accept the message.
func (r *Record) Apply(c statemachine.Command) (Deed, error) {
	next, err := statemachine.Next(r.State, c.Message)
	if err != nil {
		return Continue, err
	}
	switch c.Message {
	case statemachine.Release:
		return Yield, nil
	case statemachine.Error:
		return Err, nil
	case statemachine.Complete, statemachine.Kill:
		return r.End(next), nil
	case statemachine.Checkpoint:
		c.Until = r.Until // keeps a sleeping task's wake time
	}
	if next == r.State && sameTime(c.Until, r.Until) && !(c.Message == statemachine.Pause && r.TypePaused) {
		return Continue, nil
	}
	r.State, r.Until, r.TypePaused = next, c.Until, false
	return Save, nil
}

func sameTime(a, b *time.Time) bool {
	return a == b || a != nil && b != nil && a.Equal(*b)
}

// AddError adds an error of the handler.
func (r *Record) AddError(text string, policy statemachine.RetryPolicy, now time.Time) {
	r.Failures = policy.CountFailure(r.Errors, r.Failures, now)
	r.Errors = statemachine.AddError(r.Errors, now.UTC(), text)
}

// Resolve carries out what an error handler has decided about the last error: the task runs again, sleeps, fails or is
// killed. The text with which it fails the task becomes the last of the task's errors.
func (r *Record) Resolve(decision statemachine.Command, now time.Time) Deed {
	if text := decision.Error; text != "" && text != statemachine.LastError(r.Errors) {
		r.Errors = statemachine.AddError(r.Errors, now.UTC(), text)
	}
	next, err := statemachine.Next(statemachine.Fault, decision.Message)
	switch {
	case err != nil:
		return r.End(statemachine.Failed)
	case next.Terminal():
		return r.End(next)
	case next == statemachine.Sleeping && r.Until != nil && r.Until.After(now):
		decision.Until = r.Until // an error while it slept changes nothing about that
	}
	r.State, r.Until = next, decision.Until
	return Save
}
