package windlass

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/stored"
	"github.com/windlass-go/windlass/statemachine"
)

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
	changing := fmt.Errorf("submit task %q: %w", s.ID, attempts.ErrContended)
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
