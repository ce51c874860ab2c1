package windlass

import (
	"encoding/json"
	"time"

	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
)

// StoreRecord puts into the end of a claim what it stores of a task with this spec: the record, completed by what
// that repeats of the spec, and the mark that a failure leaves for the tasks that wait for it. It returns an error if the
// record cannot be encoded.
func (s Spec) StoreRecord(e *coordinator.Ending, r statemachine.Record, props json.RawMessage) (err error) {
	now := time.Now().UTC()
	r.Token, r.ChangedAt = int64(e.Token), &now
	r.Type, r.Priority, r.Digest, r.SubmittedAt = s.Type, s.Priority, s.Digest, nil
	if at := s.SubmittedAt; !at.IsZero() {
		r.SubmittedAt = &at
	}
	if e.Kind == coordinator.Done {
		s.keepInput(&r, props)
		e.Forget, e.Mark = r.State == statemachine.Completed, s.failureMark(r.State)
	}
	e.State, err = r.Encode()
	return err
}

// failureMark returns the mark that the task leaves if it ends in a state, nil for none.
func (s Spec) failureMark(state statemachine.State) []byte {
	if s.OnFailure == FailureRuns || state != statemachine.Failed && state != statemachine.Killed {
		return nil
	}
	value, err := json.Marshal(coordinator.FailureMark{State: state, Skip: s.OnFailure == FailureSkips})
	if err != nil {
		return nil // cannot be: two plain fields
	}
	return value
}

// keepInput sets what a task that has ended can be run again with. A job has that in the tree;
// of its spec only the tags are kept, by which lists select.
func (s Spec) keepInput(r *statemachine.Record, props json.RawMessage) {
	if s.Job {
		s, props = Spec{Tags: s.Tags}, nil
	}
	s.Type, s.Priority, s.SubmittedAt, s.RestartedAt, s.Digest, s.Turn, s.Trace = "", 0, time.Time{}, time.Time{}, "", 0, ""
	if value, err := json.Marshal(s); err == nil && string(value) != "{}" {
		r.Spec = value
	}
	if json.Valid(props) {
		r.Props = props
	}
	if len(r.Spec)+len(r.Props) > recordBytesMax { // whoever writes to the store by hand is held to no limit
		r.Spec, r.Props, r.Digest = nil, nil, notKept
	}
}

// notKept is the digest of a task whose input cannot be kept: none has it, so that nothing else is run again
// in its place.
const notKept = "not kept"
