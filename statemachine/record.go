package statemachine

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/internal/stored"
)

// Record is the value of state/<task>. The first three fields are Metafora's; the rest
// describes the task once its own key is gone.
type Record struct {
	// State of the task.
	State State `json:"state"`
	// Until is when a sleeping task runs again.
	Until *time.Time `json:"until,omitempty"`
	// Errors are the latest errors, the oldest first, at most ErrorsMax.
	Errors []ErrorEntry `json:"errors,omitempty"`

	// Type, Priority, SubmittedAt and Digest are those of the spec.
	Type        string     `json:"type,omitempty"`
	Priority    int        `json:"priority,omitempty"`
	SubmittedAt *time.Time `json:"submitted_at,omitempty"`
	Digest      string     `json:"digest,omitempty"`
	// Spec is the rest of the spec and Props are the properties of a task that has ended,
	// with which it can be run again. A job of the tree has its own there.
	Spec  json.RawMessage `json:"spec,omitempty"`
	Props json.RawMessage `json:"props,omitempty"`
	// Node and Token are those of the claim that wrote the record.
	Node  string `json:"node,omitempty"`
	Token int64  `json:"token,omitempty"`
	// ClaimedAt is when that claim was granted, ChangedAt when the record was
	// written, both by the node's clock.
	ClaimedAt *time.Time `json:"claimed_at,omitempty"`
	ChangedAt *time.Time `json:"changed_at,omitempty"`
	// Result is the handler's result, as JSON.
	Result json.RawMessage `json:"result,omitempty"`
	// Failures counts the errors without a pause of RetryPolicy.Window between them,
	// including those no longer in Errors.
	Failures int `json:"failures,omitempty"`
	// Command is the revision of the last command that changed the state, for its
	// sender.
	Command int64 `json:"command,omitempty"`

	// TypePaused is true for a task that is paused because its type is, and runs again
	// once that is resumed.
	TypePaused bool `json:"type_paused,omitempty"`

	// Unknown has the fields that a newer version wrote, as the members of a JSON
	// object without its braces. Encode keeps them.
	Unknown string `json:"-"`
}

// ErrorEntry is one error of a task.
type ErrorEntry struct {
	Timestamp time.Time `json:"timestamp"`
	Error     string    `json:"error"`

	unknown stored.Unknown
}

// Limits of a record.
const (
	// ErrorsMax is how many errors are kept.
	ErrorsMax = 8
	// ErrorBytesMax limits the text of one error; a longer one keeps its beginning.
	ErrorBytesMax = 4 << 10
)

// Parse parses a record. An empty value is a runnable task. Unknown fields are kept for
// Encode; an unknown state is an error.
func Parse(value []byte) (Record, error) {
	if len(value) == 0 {
		return Record{State: Runnable}, nil
	}
	var r Record
	all, err := stored.Unmarshal(value, &r)
	if err != nil {
		return Record{}, fmt.Errorf("state: %w", err)
	}
	if !r.State.Valid() {
		return Record{}, fmt.Errorf("state %q is not known", r.State)
	}
	if r.State == Sleeping && r.Until == nil {
		return Record{}, fmt.Errorf("state %q has no time to wake up at", r.State)
	}
	if !all {
		r.keepUnknown(value)
	}
	return r, nil
}

// keepUnknown keeps the fields of the parsed value that the record does not define.
func (r *Record) keepUnknown(value []byte) {
	r.Unknown = string(stored.UnknownIn(value, *r))
	var raw struct {
		Errors []json.RawMessage `json:"errors"`
	}
	_ = json.Unmarshal(value, &raw) // it was parsed before
	for i := range r.Errors {
		r.Errors[i].unknown = stored.UnknownIn(raw.Errors[i], r.Errors[i])
	}
}

// Encode returns the value of the key, including what a newer version wrote into it.
func (r Record) Encode() ([]byte, error) {
	if !slices.ContainsFunc(r.Errors, func(e ErrorEntry) bool { return e.unknown != "" }) {
		return stored.MarshalWith(r, stored.Unknown(r.Unknown))
	}
	errs, err := stored.MarshalEach(r.Errors, func(e ErrorEntry) stored.Unknown { return e.unknown })
	if err != nil {
		return nil, err
	}
	return stored.MarshalWith(struct {
		Record
		Errors []json.RawMessage `json:"errors"` // in place of the record's
	}{r, errs}, stored.Unknown(r.Unknown))
}

// AddError returns errs with one more entry, cut to the limits. It does not modify
// errs.
func AddError(errs []ErrorEntry, at time.Time, text string) []ErrorEntry {
	if len(text) > ErrorBytesMax {
		text = text[:ErrorBytesMax] + "… (cut)"
	}
	kept := errs[max(0, len(errs)-ErrorsMax+1):]
	return append(append(make([]ErrorEntry, 0, len(kept)+1), kept...), ErrorEntry{Timestamp: at, Error: text})
}

// LastError returns the text of the latest of some errors, empty for none.
func LastError(errs []ErrorEntry) string {
	if len(errs) == 0 {
		return ""
	}
	return errs[len(errs)-1].Error
}
