package windlass

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
)

// ExistsError says that a task of that ID is live. It is an ErrExists.
type ExistsError struct {
	ID string
	// Same tells that what was submitted then is what was submitted now.
	Same bool
}

// Error implements error.
func (e *ExistsError) Error() string {
	if e.Same {
		return fmt.Sprintf("task %q exists already", e.ID)
	}
	return fmt.Sprintf("task %q exists already, with another type, properties or other settings", e.ID)
}

// Is makes it an ErrExists.
func (e *ExistsError) Is(target error) bool { return target == ErrExists }

// Submit makes a task exist. It is refused with an *ExistsError when the ID is
// live and Update is not set, with ErrWorking when it is held and Requeue is not
// set either, with a *FinishedError when its state is terminal and Rerun is not
// set, and with a *BadInputError when something about it is not allowed.
func (c *Client) Submit(ctx context.Context, s Submission) error {
	return c.SubmitAll(ctx, []Submission{s})[0]
}

// SubmitAll submits many tasks, at most SubmitBatchMax, in few round trips and
// returns one error for each, in order. They are independent of each other.
func (c *Client) SubmitAll(ctx context.Context, submissions []Submission) []error {
	_, errs := c.Enqueue(ctx, submissions)
	return errs
}

// Effect is what a submission did.
type Effect string

// The effects.
const (
	// EffectCreated: there is a new task.
	EffectCreated Effect = "created"
	// EffectUpdated: a task that was pending is what was submitted now.
	EffectUpdated Effect = "updated"
	// EffectRerun: a task that had ended is pending again.
	EffectRerun Effect = "requeued"
	// EffectRequeued: the task is held, and runs again once its run has ended.
	EffectRequeued Effect = "requeued after its run"
)

// Enqueue is SubmitAll that also tells what was done for each, in order; empty
// where there is an error.
func (c *Client) Enqueue(ctx context.Context, submissions []Submission) ([]Effect, []error) {
	errs, effects := make([]error, len(submissions)), make([]Effect, len(submissions))
	if len(submissions) > SubmitBatchMax {
		for i := range errs {
			errs[i] = badInput("submissions", len(submissions), fmt.Sprintf("must be at most %d in one call", SubmitBatchMax))
		}
		return effects, errs
	}
	var open []*submitting
	now := time.Now().UTC()
	for i, s := range submissions {
		if errs[i] = s.Validate(); errs[i] != nil {
			continue
		}
		s.Spec.Digest = s.digest()
		s.Spec.SubmittedAt = now
		spec, err := json.Marshal(s.Spec)
		if err != nil {
			errs[i] = badInput("not_before", s.Spec.NotBefore, err.Error())
			continue
		}
		open = append(open, &submitting{Submission: s, index: i, spec: spec, effect: &effects[i]})
	}
	open = c.refuseLayout(ctx, open, errs)
	open = c.refuseCycles(ctx, open, errs)
	for attempt := 1; len(open) > 0; attempt++ {
		open = c.submitOnce(ctx, open, errs)
		if attempt == attemptsMax || ctx.Err() != nil {
			break
		}
		if len(open) > 0 {
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(attempt-1) * attemptPause):
			}
		}
	}
	return effects, errs
}

// submitting is a submission under way.
type submitting struct {
	Submission
	index int
	spec  []byte
	// again tells that an attempt before may have been applied.
	again bool
	// replaces is the revision of a state that is to go.
	replaces broker.Revision
	// updates is when the pending task was created that is to be changed, held the
	// token of the claim after which it is to run again; zero for neither.
	updates, held broker.Revision
	// reruns tells that the state that is to go is terminal.
	reruns bool
	// effect is what it did in the end.
	effect *Effect
}

// submitOnce makes one attempt for each, and returns those to try again.
func (c *Client) submitOnce(ctx context.Context, open []*submitting, errs []error) (again []*submitting) {
	txns := make([]broker.Txn, len(open))
	for i, s := range open {
		txns[i] = c.submitTxn(s)
	}
	var refused []*submitting
	for i, r := range c.broker.Commit(ctx, txns...) {
		s := open[i]
		switch {
		case r.Err != nil:
			errs[s.index] = fmt.Errorf("submit task %q: %w", s.ID, r.Err)
			if broker.MaybeApplied(r.Err) {
				s.again = true
				again = append(again, s)
			}
		case r.OK:
			errs[s.index], *s.effect = nil, s.done()
		default:
			refused = append(refused, s)
		}
	}
	return append(again, c.explainSubmissions(ctx, refused, errs)...)
}

// explainSubmissions finds out why submissions were refused, by what is stored
// now, and returns those to try again. Few are, so this costs less than asking
// along with every submission.
func (c *Client) explainSubmissions(ctx context.Context, refused []*submitting, errs []error) (again []*submitting) {
	if len(refused) == 0 {
		return nil
	}
	txns := make([]broker.Txn, len(refused))
	for i, s := range refused {
		keys := []string{c.space.Task(s.ID), c.space.Props(s.ID), c.space.State(s.ID), c.space.Owner(s.ID)}
		if parent := s.parent(); parent != "" {
			keys = append(keys, c.space.Job(parent))
		}
		for _, key := range keys {
			txns[i].Then = append(txns[i].Then, broker.Read(key))
		}
	}
	for i, r := range c.broker.Commit(ctx, txns...) {
		s := refused[i]
		retry := false
		if r.Err != nil {
			errs[s.index] = fmt.Errorf("submit task %q: %w", s.ID, r.Err)
		} else if errs[s.index], retry = s.refused(r.Reads); retry {
			again = append(again, s)
		}
	}
	return again
}

// submitTxn makes the transaction of an attempt.
func (c *Client) submitTxn(s *submitting) broker.Txn {
	task, props, state, owner := c.space.Task(s.ID), c.space.Props(s.ID), c.space.State(s.ID), c.space.Owner(s.ID)
	var txn broker.Txn
	switch {
	case s.held != 0:
		txn.If = []broker.Cond{broker.Created(task, s.updates), broker.Created(owner, s.held)}
		txn.Then = []broker.Op{broker.Put(c.space.Requeue(s.ID), s.requeue())}
		c.putJob(&txn, s)
		return txn
	case s.updates != 0:
		txn.If = []broker.Cond{broker.Created(task, s.updates), broker.Absent(owner)}
		txn.Then = []broker.Op{broker.Put(task, s.spec)}
		if len(s.Props) == 0 {
			txn.Then = append(txn.Then, broker.Delete(props))
		}
	default:
		txn.If = []broker.Cond{broker.Absent(task), broker.Absent(props)}
		txn.Then = []broker.Op{broker.Put(task, s.spec)}
		if s.replaces == 0 {
			txn.If = append(txn.If, broker.Absent(state))
			break
		}
		txn.If = append(txn.If, broker.Modified(state, s.replaces))
		txn.Then = append(txn.Then, broker.Delete(state), broker.Delete(c.space.Progress(s.ID)), broker.Delete(c.space.Failed(s.ID)))
	}
	if len(s.Props) > 0 {
		txn.Then = append(txn.Then, broker.Put(props, s.Props))
	}
	c.putJob(&txn, s)
	return txn
}

// done is what an attempt did that took effect.
func (s *submitting) done() Effect {
	switch {
	case s.held != 0:
		return EffectRequeued
	case s.updates != 0:
		return EffectUpdated
	case s.replaces != 0 && s.reruns:
		return EffectRerun
	}
	return EffectCreated
}

// requeue is what is kept beside a task that is held.
func (s *submitting) requeue() []byte {
	value, err := json.Marshal(coordinator.Requeue{Spec: s.spec, Props: s.Props})
	if err != nil {
		return nil // cannot be: both are valid JSON
	}
	return value
}

// refused finds out why, and whether another attempt will do.
func (s *submitting) refused(reads []*broker.KV) (err error, retry bool) {
	task, props, state, owner := reads[0], reads[1], reads[2], reads[3]
	changing := fmt.Errorf("submit task %q: it changes too often", s.ID)
	tried := s.done()
	s.updates, s.held = 0, 0
	switch {
	case task != nil && s.again && bytes.Equal(task.Value, s.spec):
		*s.effect = tried // this very submission was applied, time of submission and all
		return nil, false
	case task != nil && s.Update && owner == nil:
		s.updates = task.Created
		return changing, true
	case task != nil && s.Requeue && owner != nil:
		s.updates, s.held = task.Created, owner.Created
		return changing, true
	case task != nil && s.Update:
		return fmt.Errorf("task %q: %w", s.ID, ErrWorking), false
	case task != nil:
		spec, err := parseSpec(task.Value)
		return &ExistsError{ID: s.ID, Same: err == nil && spec.Digest == s.Spec.Digest}, false
	case props != nil:
		return &ExistsError{ID: s.ID}, false
	case state == nil && s.replaces == 0 && len(reads) > 4 && reads[4] == nil:
		return fmt.Errorf("job %q: %w", s.ID, ErrNoParent), false
	case state == nil:
		s.replaces = 0 // what refused it is gone
		return changing, true
	}
	record, parseErr := statemachine.Parse(state.Value)
	s.reruns = parseErr == nil && record.State.Terminal()
	if s.reruns && !s.Rerun {
		return finishedAs(s.ID, record.State, record.Digest == s.Spec.Digest), false
	}
	// What a deleted task left behind does not concern a new one.
	s.replaces = state.Modified
	return changing, true
}

// finishedAs refuses a submission because its ID has ended.
func finishedAs(id string, state statemachine.State, same bool) error {
	finished := &FinishedError{ID: id, State: state, Same: same}
	if !same {
		return fmt.Errorf("%w, with another type, properties or other settings", finished)
	}
	return finished
}

// refuseLayout refuses all of them if the namespace is not one to write into.
func (c *Client) refuseLayout(ctx context.Context, open []*submitting, errs []error) []*submitting {
	if len(open) == 0 {
		return nil
	}
	err := c.checkLayout(ctx)
	if err == nil {
		return open
	}
	for _, s := range open {
		errs[s.index] = fmt.Errorf("submit task %q: %w", s.ID, err)
	}
	return nil
}

// AlreadySubmitted tells whether an error of Submit means that the very same
// task was submitted before, be it live or done; a repeated submission is then
// complete.
func AlreadySubmitted(err error) bool {
	var exists *ExistsError
	var finished *FinishedError
	switch {
	case errors.As(err, &exists):
		return exists.Same
	case errors.As(err, &finished):
		return finished.Same
	}
	return false
}
