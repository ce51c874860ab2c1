package windlass

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/edit"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/stored"
)

// JobRecord is a job of the tree as it was queued: the value of
// tree/<name_type>/<name_type>/….
type JobRecord struct {
	// Name and Type of the job.
	Name string `json:"name"`
	Type string `json:"type"`
	// Parent is the path of the parent job, with slashes; empty for none.
	Parent string `json:"parent,omitempty"`
	// Data is the data that the job was queued with.
	Data json.RawMessage `json:"data,omitempty"`
	// Spec is the rest of what the job was queued with.
	Spec Spec `json:"spec,omitzero"`
	// QueuedAt is when the job was queued, by the clock of the client.
	QueuedAt time.Time `json:"queued_at,omitzero"`
}

// validateJob checks the ID and the type of a job of the tree, and that no other task is
// called like one below another: it would be in nobody's tree.
func (s Submission) validateJob() error {
	if !s.Spec.Job {
		for _, above := range depend.Ancestors(s.ID) {
			if keys.CheckJobID(above) == nil {
				return badInput("task ID", s.ID, fmt.Sprintf("must not be below that of a job, %q, unless it is a job too", above))
			}
		}
		return nil
	}
	if err := keys.CheckJobID(s.ID); err != nil {
		return err
	}
	last := s.ID[strings.LastIndex(s.ID, keys.JobSeparator)+1:]
	if _, jobType, _ := keys.ParseJobSegment(last); jobType != s.Spec.Type {
		return badInput("type", s.Spec.Type, fmt.Sprintf("must be %q, as the path of the job says", jobType))
	}
	return nil
}

// EncodeJob implements edit.Spec.
func (s *toStore) EncodeJob(f edit.Facts, id, parent string) ([]byte, error) {
	record := JobRecord{Parent: strings.ReplaceAll(parent, keys.JobSeparator, "/"), Data: s.props, Spec: s.spec, QueuedAt: f.SubmittedAt}
	record.Name, record.Type, _ = keys.ParseJobSegment(id[strings.LastIndex(id, keys.JobSeparator)+1:])
	record.Spec.Type, record.Spec.Job, record.Spec.SubmittedAt, record.Spec.Digest = "", false, time.Time{}, ""
	record.Spec.RestartedAt, record.Spec.Turn, record.Spec.Trace, record.Spec.By = time.Time{}, 0, "", ""
	return stored.Marshal(record)
}
