package windlass

import (
	"context"
	"errors"
	"fmt"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/edit"
	"github.com/windlass-go/windlass/internal/keys"
)

// Update changes a live task. It reads the task, lets change edit its submission, and
// submits that with Submission.Update. If the task is changed by others in between,
// change is called again, with what they made of it. What change does to the ID, to
// Rerun and to Requeue has no effect; an error of it ends Update, and is returned.
//
// Update returns ErrNotFound if there is no such task, a *FinishedError if it has ended
// (Rerun takes the same change), and whatever Submit returns.
func (c *Client) Update(ctx context.Context, id string, change func(*Submission) error) (Effect, error) {
	for range attempts.Max {
		read, errs := c.readSubmissions(ctx, []string{id})
		if errs[0] != nil {
			return "", errs[0]
		}
		s := read[0]
		base, was, job := s.base, s.digest(), s.Spec.Job
		if err := change(&s); err != nil {
			return "", err
		}
		s.ID, s.Update, s.Rerun, s.Requeue, s.base = id, true, false, false, base
		if s.Spec.Job != job {
			return "", edit.JobStays(s.Spec.Job)
		}
		if err := s.Validate(); err != nil {
			return "", err
		}
		if s.digest() == was {
			return EffectUnchanged, nil
		}
		effects, errs := c.Enqueue(ctx, []Submission{s})
		if !errors.Is(errs[0], edit.ErrChanged) || broker.MaybeApplied(errs[0]) {
			return effects[0], errs[0]
		}
	}
	return "", fmt.Errorf("update task %q: %w", id, attempts.ErrContended)
}

// Submissions returns what live tasks were submitted as, or were changed to since, and an
// error for each, in order: ErrNotFound, or a *FinishedError if it has ended. The
// request is one for all of them.
func (c *Client) Submissions(ctx context.Context, ids []string) ([]Submission, []error) {
	submissions, errs := c.readSubmissions(ctx, ids)
	for i := range submissions {
		submissions[i].base = 0
	}
	return submissions, errs
}

// readSubmissions is Submissions with the revisions at which the tasks were so.
func (c *Client) readSubmissions(ctx context.Context, ids []string) ([]Submission, []error) {
	submissions, errs := make([]Submission, len(ids)), make([]error, len(ids))
	var txns []broker.Txn
	var read []int
	for i, id := range ids {
		if err := keys.CheckTaskID(id); err != nil {
			errs[i] = err
			continue
		}
		read = append(read, i)
		txns = append(txns, broker.Txn{Then: []broker.Op{
			broker.Read(c.space.Task(id)), broker.Read(c.space.Props(id)), broker.Read(c.space.State(id)),
		}})
	}
	for k, r := range c.broker.Commit(ctx, txns...) {
		i := read[k]
		if r.Err != nil {
			errs[i] = fmt.Errorf("task %q: %w", ids[i], r.Err)
			continue
		}
		submissions[i], errs[i] = submissionIn(ids[i], r.Reads[0], r.Reads[1], r.Reads[2])
	}
	return submissions, errs
}

// submissionIn returns what is stored of a task's submission.
func submissionIn(id string, task, props, state *broker.KV) (s Submission, err error) {
	if task == nil {
		return s, editing.NotLive(id, state)
	}
	if s.Spec, err = parseSpec(task.Value); err != nil {
		return Submission{}, fmt.Errorf("task %q: %w", id, err)
	}
	if s.ID, s.base = id, task.Modified; props != nil {
		s.Props = props.Value
	}
	return s, nil
}
