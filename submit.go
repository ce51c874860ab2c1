package windlass

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/meter"
	"github.com/windlass-go/windlass/internal/pause"
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
	EffectCreated Effect = "created"
	// EffectUpdated: a live task was changed to this submission.
	EffectUpdated Effect = "updated"
	// EffectUnchanged: a live task was this submission already.
	EffectUnchanged Effect = "unchanged"
	// EffectRerun: a task that had ended is pending again.
	EffectRerun Effect = "requeued"
	// EffectRequeued: a node holds the task, and it runs again once that run has ended.
	EffectRequeued Effect = "requeued after its run"
)

// Enqueue is like SubmitAll and also returns the effect of each submission, in order.
// The effect is empty where there is an error.
func (c *Client) Enqueue(ctx context.Context, submissions []Submission) ([]Effect, []error) {
	errs, effects := make([]error, len(submissions)), make([]Effect, len(submissions))
	c.enqueue(ctx, submissions, effects, errs)
	return effects, errs
}

// enqueue submits what is not refused already, and sets its effects and errors.
func (c *Client) enqueue(ctx context.Context, submissions []Submission, effects []Effect, errs []error) {
	if len(submissions) > SubmitBatchMax {
		for i := range errs {
			errs[i] = badInput("submissions", len(submissions), fmt.Sprintf("must be at most %d in one call", SubmitBatchMax))
		}
		return
	}
	ctx, submissions, traced := c.traceSubmit(ctx, submissions)
	defer func() { traced(errs) }()
	open := c.prepare(ctx, submissions, effects, errs)
	open = c.refuseLayout(ctx, open, errs)
	open = c.refuseCycles(ctx, open, errs)
	c.submitInOrder(ctx, submissions, open, errs)
	submitted := slices.DeleteFunc(slices.Clone(open), func(s *submitting) bool { return errs[s.index] != nil || *s.effect == EffectUnchanged })
	c.takeBackCycles(ctx, submitted, errs)
	c.noteUpdates(ctx, slices.DeleteFunc(submitted, func(s *submitting) bool { return errs[s.index] != nil }))
	for _, s := range open {
		if err := errs[s.index]; err != nil && s.again {
			errs[s.index] = attempts.Doubted(err, s.doubt)
		}
	}
}

// submitInOrder stores submissions, each after those of the call that it needs.
func (c *Client) submitInOrder(ctx context.Context, submissions []Submission, open []*submitting, errs []error) {
	byIndex := make([]*submitting, len(submissions))
	for _, s := range open {
		byIndex[s.index] = s
	}
	line, done := newLine(submissions, errs), 0
	for next := line.Next(submitChunk); len(next) > 0; next = line.Next(submitChunk) {
		some := make([]*submitting, len(next))
		for n, i := range next {
			some[n] = byIndex[i]
		}
		c.submitSome(ctx, some, errs)
		line.settle(next)
		done += len(next)
		meter.Set(ctx, done)
	}
}

// submitSome stores submissions of which none needs another.
func (c *Client) submitSome(ctx context.Context, open []*submitting, errs []error) {
	for attempt := 1; ; attempt++ {
		open = c.submitOnce(ctx, open, errs)
		if len(open) == 0 || attempt == attempts.Max || ctx.Err() != nil {
			return
		}
		pause.For(ctx, time.Duration(attempt-1)*attempts.Pause)
	}
}

// line is the order in which the submissions of a call are stored.
type line struct {
	*depend.Together
	submissions []Submission
	errs        []error
}

// newLine returns the order of submissions, of which some may be refused already.
func newLine(submissions []Submission, errs []error) line {
	ids := make([]string, len(submissions))
	var refused []int
	for i, s := range submissions {
		if ids[i] = s.ID; errs[i] != nil {
			refused = append(refused, i)
		}
	}
	blockers := func(i int) []string { return depend.Blockers(ids[i], submissions[i].Spec.Needs) }
	l := line{depend.NewTogether(ids, blockers), submissions, errs}
	l.settle(refused)
	return l
}

// settle records the outcome of some submissions, and refuses those that need a refused one.
func (l line) settle(some []int) {
	for _, i := range some {
		if err := l.errs[i]; err == nil || AlreadySubmitted(err) {
			l.Stored(i)
			continue
		}
		for _, r := range l.Refuse(i) {
			if l.errs[r.Index] == nil {
				l.errs[r.Index] = unmetNeed(l.submissions[r.Index].ID, r.Need, l.errs[i])
			}
		}
	}
}

// unmetNeed returns the error for a task that needs a refused one. If the broker is the
// cause, it is that of this error as well; this task was not sent.
func unmetNeed(id, need string, cause error) error {
	err := fmt.Errorf("submit task %q: %w: %q was not submitted", id, ErrUnmetNeed, need)
	if e, ok := errors.AsType[*broker.Error](cause); ok {
		known := *e
		known.Maybe = false
		err = fmt.Errorf("%w: %w", err, &known)
	}
	return err
}

// prepare validates submissions that are not refused already, and returns those that can be
// sent.
func (c *Client) prepare(ctx context.Context, submissions []Submission, effects []Effect, errs []error) (open []*submitting) {
	now := time.Now().UTC()
	for i, s := range submissions {
		if errs[i] == nil {
			errs[i] = s.Validate()
		}
		if errs[i] != nil {
			continue
		}
		s.Spec.Digest, s.Spec.By = s.digest(), Caller(ctx)
		next := &submitting{Submission: s, index: i, effect: &effects[i], replaces: s.ended, reruns: s.ended != 0}
		if s.base == 0 {
			next.Spec.SubmittedAt, next.Spec.RestartedAt, next.Spec.Turn = now, time.Time{}, 0
		} else {
			next.updates = &broker.KV{Modified: s.base}
		}
		open = append(open, next)
		if errs[i] = open[len(open)-1].encode(); errs[i] != nil {
			open = open[:len(open)-1]
		}
	}
	here := map[string]bool{}
	for _, s := range open {
		here[s.ID] = true
	}
	for _, s := range open {
		s.withParent = here[s.parent()]
	}
	return open
}

// submitOnce makes one attempt for each submission and returns those to retry.
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
				s.again, s.doubt = true, r.Err
				again = append(again, s)
			}
		case r.OK:
			errs[s.index], *s.effect = nil, s.done()
			s.written, s.before = r.Revision, r.Reads
		default:
			refused = append(refused, s)
		}
	}
	return append(again, c.explainSubmissions(ctx, refused, errs)...)
}

// explainSubmissions finds out from the stored data why submissions were refused, and
// returns those to retry. Few are refused, so this costs less than reading the same
// keys along with every submission.
func (c *Client) explainSubmissions(ctx context.Context, refused []*submitting, errs []error) (again []*submitting) {
	if len(refused) == 0 {
		return nil
	}
	for i, r := range c.readSubmitted(ctx, refused) {
		s := refused[i]
		retry := false
		if r.Err != nil {
			errs[s.index] = fmt.Errorf("submit task %q: %w", s.ID, r.Err)
			if broker.MaybeApplied(r.Err) { // as little is known as before
				again = append(again, s)
			}
			continue
		}
		if errs[s.index], retry = s.refused(r.Reads, r.Revision); retry {
			again = append(again, s)
		}
	}
	return again
}

// specIn returns the spec of a stored task, if there is one that can be read.
func specIn(task *broker.KV) (s Spec, ok bool) {
	if task == nil {
		return s, false
	}
	s, err := parseSpec(task.Value)
	return s, err == nil
}

// isAlready reports whether a stored task is what the submission would make of it.
func (s *submitting) isAlready(before Spec, props *broker.KV) bool {
	was := Submission{Spec: before}
	if props != nil {
		was.Props = props.Value
	}
	return was.digest() == s.Spec.Digest
}

// applied returns the revision at which an earlier attempt took effect, zero if it did
// not. It compares what the attempt would have written, including the time of
// submission.
func (s *submitting) applied(task, waiting *broker.KV) broker.Revision {
	switch {
	case !s.again:
	case s.held != 0 && waiting != nil && bytes.Equal(waiting.Value, s.requeue()):
		return waiting.Modified // or the run that it waited for has ended since, and the task is that
	case task != nil && bytes.Equal(task.Value, s.spec):
		return task.Modified
	}
	return 0
}

// takeTurn sets the task's turn: that of the task that it changes, or one after all
// tasks pending at a revision. A task that is changed keeps its time of submission as
// well; a job is submitted again.
func (s *submitting) takeTurn(changes Spec, at broker.Revision) bool {
	if s.Spec.Turn = int64(at); at == 0 {
		s.Spec.Turn, s.Spec.RestartedAt = changes.Turn, changes.RestartedAt
		if !s.Spec.Job && !changes.SubmittedAt.IsZero() {
			s.Spec.SubmittedAt = changes.SubmittedAt
		}
	}
	return s.encode() == nil // as it did before
}

// finishedAs returns the error for an ID that has ended.
func finishedAs(id string, state statemachine.State, same bool) error {
	finished := &FinishedError{ID: id, State: state, Same: same}
	if !same {
		return fmt.Errorf("%w, with another type, properties or other settings", finished)
	}
	return finished
}

// refuseLayout refuses all submissions if this version must not write into the
// namespace.
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
