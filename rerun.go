package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/edit"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/statemachine"
)

// Rerun says how Client.Rerun runs tasks again. The zero value is for tasks that have ended, and runs them from
// the beginning, as they were submitted.
type Rerun struct {
	// KeepProgress keeps the progress that the earlier runs have saved, so that the handler goes on from its
	// last checkpoint. What has completed has none.
	KeepProgress bool
	// Live is for tasks that have not ended: a node that holds one stops its handler with the cause ErrUpdated,
	// and claims it again, if it still may. One that sleeps or is paused stays so. The progress is always kept.
	Live bool
	// Change edits what each task was submitted with, as that of Client.Update does: what it leaves alone stays.
	// It is stored in the transaction by which the task runs again. Nil changes nothing.
	Change func(*Submission) error
}

// Rerun runs up to SubmitBatchMax tasks again, and returns one error for each, in order. The history of a task goes on;
// what else an earlier run that has ended left is deleted. Like SubmitAll it stores each after those of the call that it
// needs. Of what has ended, the errors are
//
//   - ErrNotFound if no task has ended under this ID, or it was forgotten,
//   - an *ExistsError if the task is live,
//   - a *FinishedError if somebody else has run it again and it has ended since,
//   - ErrUnmetNeed if it would be killed at once, because a task that it needs has failed and does not run again with it,
//   - ErrNoInput if it is not known what it was submitted with,
//   - the error of the change, or of the validation of what that made.
//
// Of live tasks, they are ErrNotFound, a *FinishedError if it has ended, and ErrWorking for a job of the tree that is held.
func (c *Client) Rerun(ctx context.Context, how Rerun, ids ...string) []error {
	if !how.Live {
		return c.rerunEnded(ctx, how, ids)
	}
	var errs []error
	now := time.Now().UTC()
	for some := range slices.Chunk(ids, edit.Chunk) {
		errs = append(errs, c.rerunLive(ctx, how, some, now)...)
	}
	return errs
}

func (c *Client) rerunEnded(ctx context.Context, how Rerun, ids []string) []error {
	what := "retry"
	if how.KeepProgress {
		what = "continue"
	}
	errs := make([]error, len(ids))
	var again []Submission
	var indexes []int
	for start := 0; start < len(ids); start += edit.Chunk {
		ended, failed := c.readEnded(ctx, ids[start:min(start+edit.Chunk, len(ids))])
		for n, s := range ended {
			if failed[n] == nil {
				s, failed[n] = s.changedBy(how.Change)
			}
			if failed[n] != nil {
				errs[start+n] = fmt.Errorf("%s task %q: %w", what, ids[start+n], failed[n])
				continue
			}
			s.keepProgress = how.KeepProgress
			again, indexes = append(again, s), append(indexes, start+n)
		}
	}
	for n, err := range c.SubmitAll(ctx, again) {
		errs[indexes[n]] = err
	}
	return errs
}

func (c *Client) rerunLive(ctx context.Context, how Rerun, ids []string, now time.Time) []error {
	all := make([]error, len(ids))
	open := make([]int, len(ids)) // indexes of ids
	for i := range open {
		open[i] = i
	}
	for attempt := 1; len(open) > 0; attempt++ {
		submissions, errs := c.readSubmissions(ctx, pick(ids, open))
		var restarts []Submission
		var read []int
		for n, s := range submissions {
			if errs[n] == nil {
				s, errs[n] = s.changedBy(how.Change)
			}
			if all[open[n]] = errs[n]; errs[n] == nil {
				s.Update, s.Spec.RestartedAt = true, now
				restarts, read = append(restarts, s), append(read, open[n])
			}
		}
		open = nil
		for n, err := range c.SubmitAll(ctx, restarts) {
			all[read[n]] = err
			if errors.Is(err, edit.ErrChanged) && !broker.MaybeApplied(err) && attempt < attempts.Max {
				open = append(open, read[n])
			}
		}
	}
	return all
}

// changedBy returns what a change, if there is one, makes of a task. Which task it is, of which kind, and how it is
// submitted are not for it to change.
func (s Submission) changedBy(change func(*Submission) error) (Submission, error) {
	after := s
	if change != nil {
		if err := change(&after); err != nil {
			return s, err
		}
	}
	if after.Spec.Job != s.Spec.Job {
		return s, edit.JobStays(after.Spec.Job)
	}
	s.Spec, s.Props = after.Spec, after.Props
	return s, s.Validate()
}

// readEnded reads what tasks that have ended were submitted with.
func (c *Client) readEnded(ctx context.Context, ids []string) ([]Submission, []error) {
	ended, errs := make([]Submission, len(ids)), make([]error, len(ids))
	var txns []broker.Txn
	var read []int
	for i, id := range ids {
		if err := keys.CheckTaskID(id); err != nil {
			errs[i] = err
			continue
		}
		txn := broker.Txn{Then: []broker.Op{broker.Read(c.space.State(id)), broker.Read(c.space.Task(id))}}
		if keys.CheckJobID(id) == nil {
			txn.Then = append(txn.Then, broker.Read(c.space.Job(id)))
		}
		txns, read = append(txns, txn), append(read, i)
	}
	for n, r := range c.broker.Commit(ctx, txns...) {
		i := read[n]
		if errs[i] = r.Err; r.Err == nil {
			ended[i], errs[i] = endedAs(ids[i], r.Reads)
		}
	}
	return ended, errs
}

// endedAs returns what a task that has ended was submitted with. What is read are its
// state, its task key and, if it may be a job, its record in the tree.
func endedAs(id string, read []*broker.KV) (Submission, error) {
	switch {
	case read[1] != nil:
		return Submission{}, fmt.Errorf("it has not ended: %w", &ExistsError{ID: id, Same: true}) // of its content nothing is claimed
	case read[0] == nil:
		return Submission{}, ErrNotFound
	}
	record, err := statemachine.Parse(read[0].Value)
	switch {
	case err != nil:
		return Submission{}, err
	case !record.State.Terminal(): // left by one that was deleted
		return Submission{}, ErrNotFound
	}
	s, err := submittedAs(id, record, read[2:])
	s.ended = read[0].Modified
	return s, err
}

// submittedAs returns what the task of a terminal state was submitted with.
func submittedAs(id string, record statemachine.Record, job []*broker.KV) (Submission, error) {
	s := Submission{ID: id, Props: record.Props}
	spec, err := parseSpec(record.Spec)
	if err != nil {
		return Submission{}, err
	}
	spec.Type, spec.Priority = record.Type, record.Priority
	if s.Spec = spec; record.Digest == "" || s.digest() == record.Digest {
		return s, nil
	}
	for _, kv := range job {
		var queued JobRecord
		if kv == nil || json.Unmarshal(kv.Value, &queued) != nil {
			continue
		}
		s.Spec, s.Props = queued.Spec, queued.Data
		s.Spec.Type, s.Spec.Job = record.Type, true
		if s.digest() == record.Digest {
			return s, nil
		}
	}
	return Submission{}, ErrNoInput
}

// pick returns the IDs of some indexes.
func pick(ids []string, indexes []int) []string {
	some := make([]string, len(indexes))
	for n, i := range indexes {
		some[n] = ids[i]
	}
	return some
}
