package windlass

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
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
// live, with a *FinishedError when its state is terminal and Rerun is not set,
// and with a *BadInputError when something about it is not allowed.
func (c *Client) Submit(ctx context.Context, s Submission) error {
	return c.SubmitAll(ctx, []Submission{s})[0]
}

// SubmitAll submits many tasks, at most SubmitBatchMax, in few round trips and
// returns one error for each, in order. They are independent of each other.
func (c *Client) SubmitAll(ctx context.Context, submissions []Submission) []error {
	errs := make([]error, len(submissions))
	if len(submissions) > SubmitBatchMax {
		for i := range errs {
			errs[i] = badInput("submissions", len(submissions), fmt.Sprintf("must be at most %d in one call", SubmitBatchMax))
		}
		return errs
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
		open = append(open, &submitting{Submission: s, index: i, spec: spec})
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
	return errs
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
}

// submitOnce makes one attempt for each, and returns those to try again.
func (c *Client) submitOnce(ctx context.Context, open []*submitting, errs []error) (again []*submitting) {
	txns := make([]broker.Txn, len(open))
	for i, s := range open {
		txns[i] = c.submitTxn(s)
	}
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
			errs[s.index] = nil
		default:
			retry := false
			if errs[s.index], retry = s.refused(r.Reads); retry {
				again = append(again, s)
			}
		}
	}
	return again
}

func (c *Client) submitTxn(s *submitting) broker.Txn {
	task, props, state := c.space.Task(s.ID), c.space.Props(s.ID), c.space.State(s.ID)
	txn := broker.Txn{
		If:   []broker.Cond{broker.Absent(task), broker.Absent(props)},
		Then: []broker.Op{broker.Put(task, s.spec)},
		Else: []broker.Op{broker.Read(task), broker.Read(props), broker.Read(state)},
	}
	if s.replaces > 0 {
		txn.If = append(txn.If, broker.Modified(state, s.replaces))
		txn.Then = append(txn.Then, broker.Delete(state), broker.Delete(c.space.Progress(s.ID)))
	} else {
		txn.If = append(txn.If, broker.Absent(state))
	}
	if len(s.Props) > 0 {
		txn.Then = append(txn.Then, broker.Put(props, s.Props))
	}
	return txn
}

// refused finds out why, and whether another attempt will do.
func (s *submitting) refused(reads []*broker.KV) (err error, retry bool) {
	task, props, state := reads[0], reads[1], reads[2]
	switch {
	case task != nil && s.again && bytes.Equal(task.Value, s.spec):
		return nil, false // this very submission was applied, time of submission and all
	case task != nil:
		spec, err := parseSpec(task.Value)
		return &ExistsError{ID: s.ID, Same: err == nil && spec.Digest == s.Spec.Digest}, false
	case props != nil:
		return &ExistsError{ID: s.ID}, false
	case state == nil:
		s.replaces = 0 // what refused it is gone
		return fmt.Errorf("submit task %q: it changes too often", s.ID), true
	}
	record, parseErr := statemachine.Parse(state.Value)
	if parseErr == nil && record.State.Terminal() && !s.Rerun {
		return finishedAs(s.ID, record.State, record.Digest == s.Spec.Digest), false
	}
	// What a deleted task left behind does not concern a new one.
	s.replaces = state.Modified
	return fmt.Errorf("submit task %q: it changes too often", s.ID), true
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

// refuseCycles refuses the tasks that would wait for themselves, through tasks
// of the same call or live ones, and returns the others.
func (c *Client) refuseCycles(ctx context.Context, open []*submitting, errs []error) []*submitting {
	waits := map[string][]string{}
	var frontier []string
	for _, s := range open {
		if blockers := depend.Blockers(s.ID, s.Spec.Needs); len(blockers) > 0 {
			waits[s.ID] = blockers
			frontier = append(frontier, blockers...)
		}
	}
	if len(frontier) == 0 {
		return open
	}
	if err := c.readWaits(ctx, waits, frontier); err != nil {
		for _, s := range open {
			errs[s.index] = fmt.Errorf("submit task %q: %w", s.ID, err)
		}
		return nil
	}
	kept := open[:0]
	for _, s := range open {
		if path := cycle(waits, s.ID); path != nil {
			errs[s.index] = badInput("needs", fmt.Sprintf("%q", path), "must not lead back to the task itself")
			continue
		}
		kept = append(kept, s)
	}
	return kept
}

// graphMax bounds the tasks that a check for cycles reads.
const graphMax = 100_000

// readWaits fills in, level by level, what the live tasks of the frontier wait
// for.
func (c *Client) readWaits(ctx context.Context, waits map[string][]string, frontier []string) error {
	for len(frontier) > 0 {
		var txns []broker.Txn
		var ids []string
		for _, id := range frontier {
			if _, known := waits[id]; !known {
				waits[id] = nil
				ids = append(ids, id)
				txns = append(txns, broker.Txn{Then: []broker.Op{broker.Read(c.space.Task(id))}})
			}
		}
		if len(waits) > graphMax {
			return badInput("needs", fmt.Sprintf("%d tasks", len(waits)), fmt.Sprintf("must not lead to more than %d tasks", graphMax))
		}
		frontier = nil
		if len(txns) == 0 {
			return nil
		}
		for i, r := range c.broker.Commit(ctx, txns...) {
			if r.Err != nil {
				return r.Err
			}
			if r.Reads[0] == nil {
				continue
			}
			if spec, err := parseSpec(r.Reads[0].Value); err == nil {
				waits[ids[i]] = depend.Blockers(ids[i], spec.Needs)
				frontier = append(frontier, waits[ids[i]]...)
			}
		}
	}
	return nil
}

// cycle returns a path from a task back to itself, nil if there is none.
func cycle(waits map[string][]string, start string) []string {
	came := map[string]string{}
	stack := []string{start}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, next := range waits[at] {
			if next == start {
				path := []string{start}
				for ; at != start; at = came[at] {
					path = append(path, at)
				}
				return append(path, start)
			}
			if _, seen := came[next]; !seen {
				came[next] = at
				stack = append(stack, next)
			}
		}
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
