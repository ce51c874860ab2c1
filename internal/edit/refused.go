package edit

import (
	"bytes"
	"fmt"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/invalid"
	"github.com/windlass-go/windlass/statemachine"
)

// refused determines from the data stored at a revision why an attempt was refused, and
// whether to retry.
func (t *Task) refused(reads []*broker.KV, at broker.Revision) (err error, retry bool) {
	task, props, state, owner, waiting := reads[0], reads[1], reads[2], reads[3], reads[4]
	changing := fmt.Errorf("submit task %q: %w", t.ID, attempts.ErrContended)
	if at := t.applied(task, waiting); at != 0 {
		t.Effect, t.written, t.before = t.done(), at, nil
		return nil, false
	}
	tried := t.done()
	t.updates, t.held, t.waiting = nil, 0, nil
	before, readable := t.rules.factsIn(task)
	switch {
	case t.Base != 0 && task == nil:
		return t.rules.NotLive(t.ID, state), false
	case t.Base != 0 && task.Modified != t.Base:
		return fmt.Errorf("update task %q: %w", t.ID, ErrChanged), false
	case task != nil && t.Update && readable && before.Job != t.Job:
		return JobStays(t.Job), false
	case task != nil && t.Update && (owner == nil || !t.Requeue) && waiting == nil && !t.Job && t.isAlready(task, props):
		t.Effect, t.written = Unchanged, task.Modified
		return nil, false
	case task != nil && t.Update && (owner == nil || !t.Requeue && !t.Job):
		t.updates = task
		return changing, t.takeTurn(before, 0)
	case task != nil && t.Requeue && owner != nil:
		t.updates, t.held, t.waiting = task, owner.Created, waiting
		return changing, t.takeTurn(Facts{}, at)
	case task != nil && t.Update:
		return fmt.Errorf("task %q: %w", t.ID, ErrWorking), false
	case task != nil:
		return t.rules.Exists(t.ID, readable && before.Digest == t.Digest), false
	case props != nil:
		return t.rules.Exists(t.ID, false), false
	case state == nil && t.Ended != 0:
		return fmt.Errorf("retry task %q: %w", t.ID, ErrNotFound), false
	case state == nil && t.replaces == 0 && len(reads) > 5 && reads[5] == nil:
		return fmt.Errorf("job %q: %w", t.ID, ErrNoParent), t.withParent
	case state == nil:
		t.replaces = 0 // what refused it is gone
		return changing, true
	}
	record, parseErr := statemachine.Parse(state.Value)
	if t.again && parseErr == nil && record.Digest == t.Digest && record.SubmittedAt != nil && record.SubmittedAt.Equal(t.SubmittedAt) {
		t.Effect = tried // it was applied, and has ended since
		return nil, false
	}
	t.reruns = parseErr == nil && record.State.Terminal()
	if t.Ended != 0 && !t.reruns { // another has run it again, and it was deleted
		return fmt.Errorf("retry task %q: %w", t.ID, ErrNotFound), false
	}
	if t.reruns && !t.Rerun {
		return t.rules.Finished(t.ID, record.State, record.Digest == t.Digest), false
	}
	// A new task does not depend on what a deleted one left behind.
	t.replaces = state.Modified
	return changing, true
}

// applied returns the revision at which an earlier attempt took effect, zero if it did
// not. It compares what the attempt would have written, including the time of
// submission.
func (t *Task) applied(task, waiting *broker.KV) broker.Revision {
	switch {
	case !t.again:
	case t.held != 0 && waiting != nil && bytes.Equal(waiting.Value, t.requeue()):
		return waiting.Modified // or the run that it waited for has ended since, and the task is that
	case task != nil && bytes.Equal(task.Value, t.spec):
		return task.Modified
	}
	return 0
}

// takeTurn sets the task's turn: that of the task that it changes, or one after all
// tasks pending at a revision. A task that is changed keeps its time of submission as
// well; a job is submitted again.
func (t *Task) takeTurn(changes Facts, at broker.Revision) bool {
	if t.Turn = int64(at); at == 0 {
		t.Turn, t.RestartedAt = changes.Turn, changes.RestartedAt
		if !t.Job && !changes.SubmittedAt.IsZero() {
			t.SubmittedAt = changes.SubmittedAt
		}
	}
	var err error
	t.spec, err = t.Spec.Encode(t.Facts)
	return err == nil // as it did before
}

// factsIn returns the facts of a stored task, if there is one that can be read.
func (r *Rules) factsIn(task *broker.KV) (f Facts, ok bool) {
	if task == nil {
		return f, false
	}
	f, err := r.Facts(task.Value)
	return f, err == nil
}

// isAlready reports whether a stored task is what the submission would make of it.
func (t *Task) isAlready(task, props *broker.KV) bool {
	var of []byte
	if props != nil {
		of = props.Value
	}
	return t.rules.Digest(task.Value, of) == t.Digest
}

// NotLive returns the error for a task that is not live: the state in which it has ended, or ErrNotFound.
func (r *Rules) NotLive(id string, state *broker.KV) error {
	if state != nil {
		if record, err := statemachine.Parse(state.Value); err == nil && record.State.Terminal() {
			return r.Finished(id, record.State, true)
		}
	}
	return fmt.Errorf("task %q: %w", id, ErrNotFound)
}

// JobStays is the error of a change that makes a task a job of the tree, or the other way round.
func JobStays(job bool) error {
	return &invalid.Input{Field: "job", Value: fmt.Sprint(job), Limit: "must stay as it is"}
}
