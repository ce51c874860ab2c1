package edit

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/stored"
	"github.com/windlass-go/windlass/statemachine"
)

// Effect is the outcome of a submission.
type Effect string

// The effects. The root package says what they mean.
const (
	Created   Effect = "created"
	Updated   Effect = "updated"
	Unchanged Effect = "unchanged"
	Rerun     Effect = "requeued"
	Requeued  Effect = "requeued after its run"
)

// Facts are the fields of a spec by which it is stored.
type Facts struct {
	Needs  []string
	Job    bool
	Digest string
	// SubmittedAt, RestartedAt and Turn may change when the task takes the place of another one.
	SubmittedAt, RestartedAt time.Time
	Turn                     int64
}

// Rules are the meaning of what is stored, which this package does not know.
type Rules struct {
	// Facts returns the facts in a stored spec.
	Facts func(spec []byte) (Facts, error)
	// Digest identifies what is stored of a task by its content, as Facts.Digest does.
	Digest func(spec, props []byte) string
	// Input returns what the task of a terminal state was submitted with. job has the values of its keys in the tree.
	Input func(id string, ended statemachine.Record, job []*broker.KV) (spec, props []byte, err error)
	// Store puts into the end of a claim what it stores of a task with a spec.
	Store func(spec []byte, e *coordinator.Ending, r statemachine.Record, props json.RawMessage) error
	// Exists and Finished return the error for an ID that is live, or has ended in a state. same is true if it has the
	// same content. Already reports whether an error is one of these for the same content.
	Exists   func(id string, same bool) error
	Finished func(id string, state statemachine.State, same bool) error
	Already  func(err error) bool
}

// Spec is what else is stored of a task.
type Spec interface {
	// Encode returns the value of the task's own key.
	Encode(f Facts) ([]byte, error)
	// EncodeJob returns the value of the job in the tree. parent is the ID of the job above it, empty for none.
	EncodeJob(f Facts, id, parent string) ([]byte, error)
}

// Task is a submission.
type Task struct {
	ID string
	Facts
	Spec  Spec
	Props json.RawMessage
	// Rerun, Update and Requeue are those of the submission in the root package.
	Rerun, Update, Requeue bool
	// Ended is the revision of the terminal state that it replaces, and no other; zero for any.
	Ended broker.Revision
	// KeepProgress leaves the progress of the earlier run.
	KeepProgress bool
	// Base is the revision of the task that an update changes, and no other; zero for any.
	Base broker.Revision

	// Err and Effect are the outcome.
	Err    error
	Effect Effect

	attempt
}

// attempt is what the next attempt to store a task does, and what the last one has done.
type attempt struct {
	rules *Rules
	space keys.Space
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
	// written is the revision of the write. before has the values that the write
	// replaced, of the keys of replacedBy.
	written broker.Revision
	before  []*broker.KV
	// withParent is true if the parent job is submitted in the same call.
	withParent bool
}

// blockers returns the tasks that it waits for.
func (t *Task) blockers() []string { return depend.Blockers(t.ID, t.Needs) }

// parent returns the ID of the parent job, empty if there is none or the task is no
// job.
func (t *Task) parent() string {
	if i := strings.LastIndex(t.ID, keys.JobSeparator); i >= 0 && t.Job {
		return t.ID[:i]
	}
	return ""
}

// encode encodes the task for the first attempt.
func (t *Task) encode() (err error) {
	t.replaces, t.reruns = t.Ended, t.Ended != 0
	if t.Base != 0 {
		t.updates = &broker.KV{Modified: t.Base}
	}
	t.spec, err = t.Spec.Encode(t.Facts)
	return err
}

// replacing reports whether the attempt replaces stored data.
func (t *Task) replacing() bool { return t.held != 0 || t.updates != nil || t.replaces != 0 }

// replacedBy returns the keys that an attempt writes or deletes.
func (t *Task) replacedBy() []string {
	var written []string
	switch { // the cases of write
	case t.held != 0:
		written = []string{t.space.Requeue(t.ID)}
	case t.updates != nil:
		written = []string{t.space.Task(t.ID), t.space.Props(t.ID), t.space.Requeue(t.ID)}
	case t.replaces != 0:
		written = []string{t.space.Task(t.ID), t.space.Props(t.ID), t.space.State(t.ID), t.space.Progress(t.ID), t.space.Failed(t.ID)}
	default:
		written = []string{t.space.Task(t.ID), t.space.Props(t.ID)}
	}
	if t.Job {
		written = append(written, t.space.Job(t.ID))
	}
	return written
}

// txn builds the transaction of an attempt. If the attempt replaces stored data,
// the transaction reads that first.
func (t *Task) txn() broker.Txn {
	txn := t.write()
	if t.replacing() {
		for _, key := range t.replacedBy() {
			txn.Then = append(txn.Then, broker.Read(key))
		}
	}
	return txn
}

// write returns the transaction of an attempt without its reads.
func (t *Task) write() broker.Txn {
	task, props, state, owner := t.space.Task(t.ID), t.space.Props(t.ID), t.space.State(t.ID), t.space.Owner(t.ID)
	var txn broker.Txn
	switch {
	case t.held != 0:
		unchanged := broker.Absent(t.space.Requeue(t.ID))
		if t.waiting != nil {
			unchanged = broker.Modified(t.waiting.Key, t.waiting.Modified)
		}
		txn.If = []broker.Cond{broker.Created(task, t.updates.Created), broker.Created(owner, t.held), unchanged}
		txn.Then = []broker.Op{broker.Put(t.space.Requeue(t.ID), t.requeue())}
		t.putJob(&txn)
		return txn
	case t.updates != nil:
		txn.If = []broker.Cond{broker.Modified(task, t.updates.Modified)}
		if t.Job {
			txn.If = append(txn.If, broker.Absent(owner))
		}
		txn.Then = []broker.Op{broker.Put(task, t.spec), broker.Delete(t.space.Requeue(t.ID))}
		if len(t.Props) == 0 {
			txn.Then = append(txn.Then, broker.Delete(props))
		}
	default:
		txn.If = []broker.Cond{broker.Absent(task), broker.Absent(props)}
		txn.Then = []broker.Op{broker.Put(task, t.spec)}
		if t.replaces == 0 {
			txn.If = append(txn.If, broker.Absent(state))
			break
		}
		txn.If = append(txn.If, broker.Modified(state, t.replaces))
		txn.Then = append(txn.Then, broker.Delete(state), broker.Delete(t.space.Failed(t.ID)))
		if !t.KeepProgress {
			txn.Then = append(txn.Then, broker.Delete(t.space.Progress(t.ID)))
		}
	}
	if len(t.Props) > 0 {
		txn.Then = append(txn.Then, broker.Put(props, t.Props))
	}
	t.putJob(&txn)
	return txn
}

// putJob adds a job's record in the tree to the transaction of an attempt. A new job
// needs an existing parent.
func (t *Task) putJob(txn *broker.Txn) {
	if !t.Job {
		return
	}
	parent := t.parent()
	if parent != "" && t.updates == nil && t.replaces == 0 {
		txn.If = append(txn.If, broker.Exists(t.space.Job(parent)))
	}
	if value, err := t.Spec.EncodeJob(t.Facts, t.ID, parent); err == nil { // it does, as the spec and the properties did
		txn.Then = append(txn.Then, broker.Put(t.space.Job(t.ID), value))
	}
}

// requeue encodes the requeue entry that is stored beside a held task.
func (t *Task) requeue() []byte {
	value, err := stored.Marshal(coordinator.Requeue{Created: t.updates.Created, Spec: t.spec, Props: t.Props})
	if err != nil {
		return nil // cannot be: both are valid JSON
	}
	return value
}

// done returns the effect of an attempt that succeeded.
func (t *Task) done() Effect {
	switch {
	case t.held != 0:
		return Requeued
	case t.updates != nil:
		return Updated
	case t.replaces != 0 && t.reruns:
		return Rerun
	}
	return Created
}
