package edit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/statemachine"
)

// deleteChunk limits the tasks that are deleted in one call of the broker, with their histories in memory.
const deleteChunk = 1000

// Delete deletes tasks, and returns an error for each, in order. by is who does it, empty if that is not known.
// writable is the error of all of them if the namespace is not to be written into.
func Delete(ctx context.Context, b broker.Broker, space keys.Space, by string, ids []string, writable error) []error {
	all := make([]deleting, len(ids))
	var open []*deleting
	for i, id := range ids {
		d := &all[i]
		d.id, d.space, d.by = id, space, by
		if d.err = keys.CheckTaskID(id); d.err == nil && writable != nil {
			d.err = fmt.Errorf("delete task %q: %w", id, writable)
		}
		if d.err == nil {
			open = append(open, d)
		}
	}
	for some := range slices.Chunk(open, deleteChunk) {
		deleteSome(ctx, b, some)
	}
	errs := make([]error, len(ids))
	for i := range all {
		errs[i] = all[i].err
	}
	return errs
}

// deleting is a task that is to be deleted.
type deleting struct {
	id, by string
	space  keys.Space
	// live identifies the task that was read: a deletion that is applied late must not affect another task
	// that was submitted under the same ID since.
	live broker.Cond
	txn  broker.Txn
	// tried identifies the task that an attempt may have deleted, and doubt is its error.
	tried broker.Cond
	doubt error
	err   error
}

// failed notes an error, and reports whether another attempt may help.
func (d *deleting) failed(err error) (again bool) {
	again = errors.Is(err, ErrChanged) || broker.MaybeApplied(err)
	d.err = fmt.Errorf("delete task %q: %w", d.id, attempts.Doubted(err, d.doubt))
	return again
}

func deleteSome(ctx context.Context, b broker.Broker, open []*deleting) {
	for attempt := 1; len(open) > 0; attempt++ {
		there, again := readToDelete(ctx, b, open, attempt <= attempts.Max/2)
		txns := make([]broker.Txn, len(there))
		for i, d := range there {
			txns[i] = d.txn
		}
		var results []broker.Result
		if len(txns) > 0 {
			results = b.Commit(ctx, txns...)
		}
		for i, r := range results {
			d := there[i]
			if broker.MaybeApplied(r.Err) {
				d.tried, d.doubt = d.live, r.Err
			}
			if !r.OK && d.failed(cmp.Or(r.Err, ErrChanged)) {
				again = append(again, d)
			}
		}
		if open = again; attempt == attempts.Max || ctx.Err() != nil || len(again) > 0 && !pause.For(ctx, time.Duration(attempt-1)*attempts.Pause) {
			return
		}
	}
}

// readToDelete reads tasks, and prepares their deletion. It returns those that are there, and those that are to be
// read again. With note it notes who deletes a task, which fails if the history is written meanwhile.
func readToDelete(ctx context.Context, b broker.Broker, open []*deleting, note bool) (there, again []*deleting) {
	txns := make([]broker.Txn, len(open))
	for i, d := range open {
		txns[i] = d.read(note)
	}
	for i, r := range b.Commit(ctx, txns...) {
		d := open[i]
		if d.err = nil; r.Err != nil {
			if d.failed(r.Err) {
				again = append(again, d)
			}
			continue
		}
		if kv := r.Reads[0]; kv == nil {
			d.live = broker.Cond{}
		} else {
			d.live = broker.Created(kv.Key, kv.Created)
		}
		switch {
		case d.tried.Key != "" && d.live != d.tried: // that attempt has deleted it
		case d.live.Key == "":
			d.err = notDeletable(d.id, r.Reads[len(r.Reads)-1])
		default:
			d.txn = d.deletion(r.OK, r.Reads[1])
			if note && d.by != "" {
				d.note(r.Reads[2], r.Reads[1])
			}
			there = append(there, d)
		}
	}
	return there, again
}

// read returns the transaction that reads the task: by its own key or, in the older form, by its properties.
func (d *deleting) read(note bool) broker.Txn {
	both := []broker.Op{broker.Read(d.space.Owner(d.id))}
	if note && d.by != "" {
		both = append(both, broker.Read(d.space.History(d.id)))
	}
	task := d.space.Task(d.id)
	return broker.Txn{
		If:   []broker.Cond{broker.Exists(task)},
		Then: append([]broker.Op{broker.Read(task)}, both...),
		Else: append([]broker.Op{broker.Read(d.space.Props(d.id))}, append(both, broker.Read(d.space.State(d.id)))...),
	}
}

// deletion returns the transaction that deletes exactly the task that was read.
func (d *deleting) deletion(own bool, owner *broker.KV) broker.Txn {
	txn := broker.Txn{If: []broker.Cond{d.live}}
	if !own { // it exists by its properties alone
		txn.If = append(txn.If, broker.Absent(d.space.Task(d.id)))
	}
	txn.Then = []broker.Op{
		broker.Delete(d.space.Task(d.id)), broker.Delete(d.space.Props(d.id)), broker.Delete(d.space.TaskCommand(d.id)),
		broker.Delete(d.space.Progress(d.id)), broker.Delete(d.space.Requeue(d.id)), broker.Delete(d.space.Handover(d.id)),
	}
	if keys.CheckJobID(d.id) == nil {
		txn.Then = append(txn.Then, broker.Delete(d.space.Job(d.id)))
	}
	if owner != nil && owner.Session == 0 {
		// In the oldest form a claim belongs to no session, and nobody gives it up.
		txn.If = append(txn.If, broker.Created(owner.Key, owner.Created))
		txn.Then = append(txn.Then, broker.Delete(owner.Key), broker.Delete(d.space.Claim(d.id)))
	}
	return txn
}

func (d *deleting) note(history, owner *broker.KV) {
	if value, ok := noted(history, owner, Note{Text: "delete, by " + d.by}); ok {
		d.txn.If = append(d.txn.If, broker.Modified(history.Key, history.Modified))
		d.txn.Then = append(d.txn.Then, broker.Put(history.Key, value))
	}
}

// notDeletable returns the error for a task that is not live: ErrNotFound, with what is left
// of it.
func notDeletable(id string, state *broker.KV) error {
	err := fmt.Errorf("task %q: %w", id, ErrNotFound)
	if state != nil {
		if record, parseErr := statemachine.Parse(state.Value); parseErr == nil && record.State.Terminal() {
			err = fmt.Errorf("%w among the live tasks: it is %s, and to be forgotten by pruning", err, record.State)
		}
	}
	return err
}
