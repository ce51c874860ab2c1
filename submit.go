package windlass

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/meter"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/internal/stored"
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
		if err := errs[s.index]; err != nil && s.again && !broker.MaybeApplied(err) {
			errs[s.index] = fmt.Errorf("%w; but an attempt before may yet be applied: %w", err, s.doubt)
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
		if len(open) == 0 || attempt == attemptsMax || ctx.Err() != nil {
			return
		}
		pause.For(ctx, time.Duration(attempt-1)*attemptPause)
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
		s.Spec.Digest, s.Spec.By = s.digest(), callerOf(ctx)
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

// submitting is a submission in progress.
type submitting struct {
	Submission
	index int
	spec  []byte
	// again is true if an earlier attempt may have been applied; doubt is its error.
	again bool
	doubt error
	// replaces is the revision of the state record to replace.
	replaces broker.Revision
	// updates is the stored task to change, nil for a new one. held is the token of the
	// claim after which it is to run again, zero for none. waiting is the stored
	// requeue entry to replace, nil for none.
	updates *broker.KV
	held    broker.Revision
	waiting *broker.KV
	// reruns is true if the state to replace is terminal.
	reruns bool
	// effect is the final outcome and written the revision of the write. before has the
	// values that the write replaced, of the keys of replacedBy.
	effect  *Effect
	written broker.Revision
	before  []*broker.KV
	// withParent is true if the parent job is submitted in the same call.
	withParent bool
}

// blockers returns the tasks that it waits for.
func (s *submitting) blockers() []string { return depend.Blockers(s.ID, s.Spec.Needs) }

// encode encodes the value of the task's key.
func (s *submitting) encode() (err error) {
	if s.spec, err = json.Marshal(&s.Spec); err != nil {
		return badInput("not_before", s.Spec.NotBefore, err.Error())
	}
	return nil
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

// readSubmitted reads what is stored under the IDs of submissions, for refused.
func (c *Client) readSubmitted(ctx context.Context, some []*submitting) []broker.Result {
	txns := make([]broker.Txn, len(some))
	for i, s := range some {
		keys := []string{c.space.Task(s.ID), c.space.Props(s.ID), c.space.State(s.ID), c.space.Owner(s.ID), c.space.Requeue(s.ID)}
		if parent := s.parent(); parent != "" {
			keys = append(keys, c.space.Job(parent))
		}
		txns[i].Then = make([]broker.Op, len(keys))
		for j, key := range keys {
			txns[i].Then[j] = broker.Read(key)
		}
	}
	return c.broker.Commit(ctx, txns...)
}

// replacing reports whether the attempt replaces stored data.
func (s *submitting) replacing() bool { return s.held != 0 || s.updates != nil || s.replaces != 0 }

// replacedBy returns the keys that an attempt writes or deletes.
func (c *Client) replacedBy(s *submitting) []string {
	var written []string
	switch { // the cases of writeTxn
	case s.held != 0:
		written = []string{c.space.Requeue(s.ID)}
	case s.updates != nil:
		written = []string{c.space.Task(s.ID), c.space.Props(s.ID), c.space.Requeue(s.ID)}
	case s.replaces != 0:
		written = []string{c.space.Task(s.ID), c.space.Props(s.ID), c.space.State(s.ID), c.space.Progress(s.ID), c.space.Failed(s.ID)}
	default:
		written = []string{c.space.Task(s.ID), c.space.Props(s.ID)}
	}
	if s.Spec.Job {
		written = append(written, c.space.Job(s.ID))
	}
	return written
}

// submitTxn builds the transaction of an attempt. If the attempt replaces stored data,
// the transaction reads that first.
func (c *Client) submitTxn(s *submitting) broker.Txn {
	txn := c.writeTxn(s)
	if s.replacing() {
		for _, key := range c.replacedBy(s) {
			txn.Then = append(txn.Then, broker.Read(key))
		}
	}
	return txn
}

func (c *Client) writeTxn(s *submitting) broker.Txn {
	task, props, state, owner := c.space.Task(s.ID), c.space.Props(s.ID), c.space.State(s.ID), c.space.Owner(s.ID)
	var txn broker.Txn
	switch {
	case s.held != 0:
		unchanged := broker.Absent(c.space.Requeue(s.ID))
		if s.waiting != nil {
			unchanged = broker.Modified(s.waiting.Key, s.waiting.Modified)
		}
		txn.If = []broker.Cond{broker.Created(task, s.updates.Created), broker.Created(owner, s.held), unchanged}
		txn.Then = []broker.Op{broker.Put(c.space.Requeue(s.ID), s.requeue())}
		c.putJob(&txn, s)
		return txn
	case s.updates != nil:
		txn.If = []broker.Cond{broker.Modified(task, s.updates.Modified)}
		if s.Spec.Job {
			txn.If = append(txn.If, broker.Absent(owner))
		}
		txn.Then = []broker.Op{broker.Put(task, s.spec), broker.Delete(c.space.Requeue(s.ID))}
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
		txn.Then = append(txn.Then, broker.Delete(state), broker.Delete(c.space.Failed(s.ID)))
		if !s.keepProgress {
			txn.Then = append(txn.Then, broker.Delete(c.space.Progress(s.ID)))
		}
	}
	if len(s.Props) > 0 {
		txn.Then = append(txn.Then, broker.Put(props, s.Props))
	}
	c.putJob(&txn, s)
	return txn
}

// done returns the effect of an attempt that succeeded.
func (s *submitting) done() Effect {
	switch {
	case s.held != 0:
		return EffectRequeued
	case s.updates != nil:
		return EffectUpdated
	case s.replaces != 0 && s.reruns:
		return EffectRerun
	}
	return EffectCreated
}

// requeue encodes the requeue entry that is stored beside a held task.
func (s *submitting) requeue() []byte {
	value, err := stored.Marshal(coordinator.Requeue{Created: s.updates.Created, Spec: s.spec, Props: s.Props})
	if err != nil {
		return nil // cannot be: both are valid JSON
	}
	return value
}

// refused determines from the data stored at a revision why an attempt was refused, and
// whether to retry.
func (s *submitting) refused(reads []*broker.KV, at broker.Revision) (err error, retry bool) {
	task, props, state, owner, waiting := reads[0], reads[1], reads[2], reads[3], reads[4]
	changing := fmt.Errorf("submit task %q: it changes too often", s.ID)
	if at := s.applied(task, waiting); at != 0 {
		*s.effect, s.written, s.before = s.done(), at, nil
		return nil, false
	}
	tried := s.done()
	s.updates, s.held, s.waiting = nil, 0, nil
	before, readable := specIn(task)
	switch {
	case s.base != 0 && task == nil:
		return notLive(s.ID, state), false
	case s.base != 0 && task.Modified != s.base:
		return fmt.Errorf("update task %q: %w", s.ID, errChangedSince), false
	case task != nil && s.Update && readable && before.Job != s.Spec.Job:
		return errJobStays(s.Submission), false
	case task != nil && s.Update && (owner == nil || !s.Requeue) && waiting == nil && !s.Spec.Job && s.isAlready(before, props):
		*s.effect, s.written = EffectUnchanged, task.Modified
		return nil, false
	case task != nil && s.Update && (owner == nil || !s.Requeue && !s.Spec.Job):
		s.updates = task
		return changing, s.takeTurn(before, 0)
	case task != nil && s.Requeue && owner != nil:
		s.updates, s.held, s.waiting = task, owner.Created, waiting
		return changing, s.takeTurn(Spec{}, at)
	case task != nil && s.Update:
		return fmt.Errorf("task %q: %w", s.ID, ErrWorking), false
	case task != nil:
		spec, err := parseSpec(task.Value)
		return &ExistsError{ID: s.ID, Same: err == nil && spec.Digest == s.Spec.Digest}, false
	case props != nil:
		return &ExistsError{ID: s.ID}, false
	case state == nil && s.ended != 0:
		return fmt.Errorf("retry task %q: %w", s.ID, ErrNotFound), false
	case state == nil && s.replaces == 0 && len(reads) > 5 && reads[5] == nil:
		return fmt.Errorf("job %q: %w", s.ID, ErrNoParent), s.withParent
	case state == nil:
		s.replaces = 0 // what refused it is gone
		return changing, true
	}
	record, parseErr := statemachine.Parse(state.Value)
	if s.again && parseErr == nil && record.Digest == s.Spec.Digest && record.SubmittedAt != nil && record.SubmittedAt.Equal(s.Spec.SubmittedAt) {
		*s.effect = tried // it was applied, and has ended since
		return nil, false
	}
	s.reruns = parseErr == nil && record.State.Terminal()
	if s.ended != 0 && !s.reruns { // another has run it again, and it was deleted
		return fmt.Errorf("retry task %q: %w", s.ID, ErrNotFound), false
	}
	if s.reruns && !s.Rerun {
		return finishedAs(s.ID, record.State, record.Digest == s.Spec.Digest), false
	}
	// A new task does not depend on what a deleted one left behind.
	s.replaces = state.Modified
	return changing, true
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
