package windlass

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/edit"
	"github.com/windlass-go/windlass/statemachine"
)

// Submit creates a task. It returns
//
//   - an *ExistsError if the ID is live and neither Update nor Requeue is set,
//   - ErrWorking if a node holds the job and Requeue is not set,
//   - a *FinishedError if its state is terminal and Rerun is not set,
//   - a *BadInputError if a part of the submission is not allowed.
func (c *Client) Submit(ctx context.Context, s Submission) error {
	return c.SubmitAll(ctx, []Submission{s})[0]
}

// SubmitAll submits up to SubmitBatchMax tasks and returns one error for each, in order. It
// sends them together, except that a task is stored only after those of the call that it
// needs, its ancestors included: each level of needs costs a round trip. So no task runs
// before what it needs, in whatever order they are given. If one of these is refused, so is
// the task, with ErrUnmetNeed; what was submitted before (AlreadySubmitted) is not refused.
// Otherwise the submissions are independent of each other.
func (c *Client) SubmitAll(ctx context.Context, submissions []Submission) []error {
	_, errs := c.Enqueue(ctx, submissions)
	return errs
}

// Effect is the outcome of a submission.
type Effect string

// The effects.
const (
	// EffectCreated: a new task was created.
	EffectCreated = Effect(edit.Created)
	// EffectUpdated: a live task was changed to this submission.
	EffectUpdated = Effect(edit.Updated)
	// EffectUnchanged: a live task was this submission already.
	EffectUnchanged = Effect(edit.Unchanged)
	// EffectRerun: a task that had ended is pending again.
	EffectRerun = Effect(edit.Rerun)
	// EffectRequeued: a node holds the task, and it runs again once that run has ended.
	EffectRequeued = Effect(edit.Requeued)
)

// Enqueue is like SubmitAll and also returns the effect of each submission, in order.
// The effect is empty where there is an error.
func (c *Client) Enqueue(ctx context.Context, submissions []Submission) ([]Effect, []error) {
	if len(submissions) > SubmitBatchMax {
		errs := make([]error, len(submissions))
		for i := range errs {
			errs[i] = badInput("submissions", len(submissions), fmt.Sprintf("must be at most %d in one call", SubmitBatchMax))
		}
		return make([]Effect, len(submissions)), errs
	}
	ctx, submissions, traced := c.traceSubmit(ctx, submissions)
	b, outcome := c.batch(ctx, submissions)
	b.Check(ctx, c.checkLayout)
	b.Store(ctx)
	effects, errs := outcome()
	traced(errs)
	return effects, errs
}

// Preview returns what Enqueue would do with any number of submissions, and changes nothing. The errors are those that it
// would return, in order, if it got all of them at once; the last one is the broker's.
func (c *Client) Preview(ctx context.Context, submissions []Submission) ([]Effect, []error, error) {
	b, outcome := c.batch(ctx, submissions)
	b.Check(ctx, c.checkLayout)
	if err := b.Preview(ctx); err != nil {
		return nil, nil, err
	}
	effects, errs := outcome()
	return effects, errs, nil
}

// batch validates submissions, and returns them as tasks to be stored, and what returns their outcome.
func (c *Client) batch(ctx context.Context, submissions []Submission) (b *edit.Batch, outcome func() ([]Effect, []error)) {
	now, by := time.Now().UTC(), Caller(ctx)
	tasks := make([]*edit.Task, len(submissions))
	for i := range submissions {
		tasks[i] = submissions[i].toStore(now, by)
	}
	return edit.New(c.broker, c.space, &editing, by, tasks), func() ([]Effect, []error) {
		effects, errs := make([]Effect, len(tasks)), make([]error, len(tasks))
		for i, t := range tasks {
			effects[i], errs[i] = Effect(t.Effect), t.Err
		}
		return effects, errs
	}
}

// toStore validates a submission that somebody makes at a time, and returns it as a task to be stored.
func (s Submission) toStore(now time.Time, by string) *edit.Task {
	t := &edit.Task{
		ID: s.ID, Err: s.Validate(), Props: s.Props, Rerun: s.Rerun, Update: s.Update, Requeue: s.Requeue,
		Ended: s.ended, KeepProgress: s.keepProgress, Base: s.base,
	}
	if t.Err != nil {
		return t
	}
	s.Spec.Digest, s.Spec.By = s.digest(), by
	if s.base == 0 {
		s.Spec.SubmittedAt, s.Spec.RestartedAt, s.Spec.Turn = now, time.Time{}, 0
	}
	t.Facts, t.Spec = s.Spec.facts(), &toStore{s.Spec, s.Props}
	return t
}

// toStore is the part of a task that package edit does not know.
type toStore struct {
	spec  Spec
	props json.RawMessage
}

// Encode implements edit.Spec.
func (s *toStore) Encode(f edit.Facts) ([]byte, error) {
	s.spec.SubmittedAt, s.spec.RestartedAt, s.spec.Turn = f.SubmittedAt, f.RestartedAt, f.Turn
	value, err := json.Marshal(&s.spec)
	if err != nil {
		return nil, badInput("not_before", s.spec.NotBefore, err.Error())
	}
	return value, nil
}

// facts returns the facts by which a task is stored.
func (s *Spec) facts() edit.Facts {
	return edit.Facts{Needs: s.Needs, Job: s.Job, Digest: s.Digest, SubmittedAt: s.SubmittedAt, RestartedAt: s.RestartedAt, Turn: s.Turn}
}

// editing is the meaning of what is stored of a task.
var editing = edit.Rules{
	Facts: func(value []byte) (edit.Facts, error) {
		spec, err := parseSpec(value)
		return spec.facts(), err
	},
	Digest: func(value, props []byte) string {
		spec, err := parseSpec(value)
		if err != nil {
			return ""
		}
		return Submission{Spec: spec, Props: props}.digest()
	},
	Input: func(id string, ended statemachine.Record, job []*broker.KV) (spec, props []byte, err error) {
		was, err := submittedAs(id, ended, job)
		if err != nil {
			return nil, nil, err
		}
		spec, err = json.Marshal(was.Spec)
		return spec, was.Props, err
	},
	Store: func(value []byte, e *coordinator.Ending, r statemachine.Record, props json.RawMessage) error {
		spec, err := parseSpec(value)
		if err != nil {
			return err
		}
		return spec.StoreRecord(e, r, props)
	},
	Exists:   func(id string, same bool) error { return &ExistsError{ID: id, Same: same} },
	Finished: finishedAs,
	Already:  AlreadySubmitted,
}

// finishedAs returns the error for an ID that has ended.
func finishedAs(id string, state statemachine.State, same bool) error {
	finished := &FinishedError{ID: id, State: state, Same: same}
	if !same {
		return fmt.Errorf("%w, with another type, properties or other settings", finished)
	}
	return finished
}

// Delete removes a task with its properties and its pending command, and a job from the
// tree. Its state stays. A running handler is stopped, and its node gives the claim up
// only when the handler has returned. A task that is submitted under the same ID does
// not run before that. The task's history names who deleted it (WithCaller), if it has
// ever been claimed. What waits for the task does not wait any more, and runs if nothing else
// keeps it: Delete does not look for that. Delete returns ErrNotFound if no such task is live.
func (c *Client) Delete(ctx context.Context, id string) error { return c.DeleteAll(ctx, id)[0] }

// DeleteAll deletes many tasks, each as Delete does, and returns an error for each, in order.
// It is not all or nothing.
func (c *Client) DeleteAll(ctx context.Context, ids ...string) []error {
	return edit.Delete(ctx, c.broker, c.space, Caller(ctx), ids, c.checkLayout(ctx))
}
