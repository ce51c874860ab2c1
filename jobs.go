package windlass

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/stored"
	"github.com/windlass-go/windlass/statemachine"
)

// OnFailure is what the failure of a task is for the tasks that wait for it.
type OnFailure string

// The policies.
const (
	// FailureBlocks: they go on waiting, until the task is run again, or forgotten
	// by "task prune --unblock".
	FailureBlocks OnFailure = "block"
	// FailureSkips: they are killed, with the reason.
	FailureSkips OnFailure = "skip"
	// FailureRuns: they run, as if it had been completed.
	FailureRuns OnFailure = "run"
)

// JobRecord is a job of the tree as it was queued: the value of
// tree/<name_type>/<name_type>/….
type JobRecord struct {
	// Name and Type of the job.
	Name string `json:"name"`
	Type string `json:"type"`
	// Parent is the path of the job above it, with slashes; empty for none.
	Parent string `json:"parent,omitempty"`
	// Data is what it was queued with.
	Data json.RawMessage `json:"data,omitempty"`
	// Spec is what else it was queued with.
	Spec Spec `json:"spec,omitzero"`
	// QueuedAt is when that was, by the clock of the client.
	QueuedAt time.Time `json:"queued_at,omitzero"`
}

// validateJob checks what makes a task a job of the tree.
func (s Submission) validateJob() error {
	if !s.Spec.Job {
		return nil
	}
	if err := keys.CheckJobID(s.ID); err != nil {
		return badName(err)
	}
	last := s.ID[strings.LastIndex(s.ID, keys.JobSeparator)+1:]
	if _, jobType, _ := keys.ParseJobSegment(last); jobType != s.Spec.Type {
		return badInput("type", s.Spec.Type, fmt.Sprintf("must be %q, as the path of the job says", jobType))
	}
	return nil
}

// parent is the ID of the job above, empty for none and for what is no job.
func (s *submitting) parent() string {
	if i := strings.LastIndex(s.ID, keys.JobSeparator); i >= 0 && s.Spec.Job {
		return s.ID[:i]
	}
	return ""
}

// putJob adds to a submission what is kept of a job in the tree. A new job goes
// only below one that is there.
func (c *Client) putJob(txn *broker.Txn, s *submitting) {
	if !s.Spec.Job {
		return
	}
	parent := s.parent()
	if parent != "" && s.updates == nil && s.replaces == 0 {
		txn.If = append(txn.If, broker.Exists(c.space.Job(parent)))
	}
	last := s.ID[strings.LastIndex(s.ID, keys.JobSeparator)+1:]
	record := JobRecord{Parent: strings.ReplaceAll(parent, keys.JobSeparator, "/"), Data: s.Props, Spec: s.Spec, QueuedAt: s.Spec.SubmittedAt}
	record.Name, record.Type, _ = keys.ParseJobSegment(last)
	record.Spec.Type, record.Spec.Job, record.Spec.SubmittedAt, record.Spec.Digest = "", false, time.Time{}, ""
	record.Spec.Turn, record.Spec.Trace = 0, ""
	if value, err := stored.Marshal(record); err == nil { // it does, as the spec and the properties did
		txn.Then = append(txn.Then, broker.Put(c.space.Job(s.ID), value))
	}
}

// failureMark is what a task leaves that ends in a state, nil for nothing.
func failureMark(state statemachine.State, policy OnFailure) []byte {
	if policy == FailureRuns || state != statemachine.Failed && state != statemachine.Killed {
		return nil
	}
	value, err := json.Marshal(coordinator.FailureMark{State: state, Skip: policy == FailureSkips})
	if err != nil {
		return nil // cannot be: two plain fields
	}
	return value
}

// skips reads whether a mark of a failure says that those that wait are to be
// killed.
func skips(mark []byte) bool { return coordinator.ParseFailureMark(mark).Skip }
