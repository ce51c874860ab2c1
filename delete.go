package windlass

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
	all, layout := make([]deleting, len(ids)), c.checkLayout(ctx)
	var open []*deleting
	for i, id := range ids {
		d := &all[i]
		if d.id, d.err = id, keys.CheckTaskID(id); d.err == nil && layout != nil {
			d.err = fmt.Errorf("delete task %q: %w", id, layout)
		}
		if d.err == nil {
			open = append(open, d)
		}
	}
	for some := range slices.Chunk(open, deleteChunk) {
		c.deleteSome(ctx, some)
	}
	errs := make([]error, len(ids))
	for i := range all {
		errs[i] = all[i].err
	}
	return errs
}

// deleting is a task that is to be deleted.
type deleting struct {
	id string
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
	again = errors.Is(err, errChangedSince) || broker.MaybeApplied(err)
	d.err = fmt.Errorf("delete task %q: %w", d.id, attempts.Doubted(err, d.doubt))
	return again
}

func (c *Client) deleteSome(ctx context.Context, open []*deleting) {
	for attempt := 1; len(open) > 0; attempt++ {
		there, again := c.readToDelete(ctx, open, attempt <= attempts.Max/2)
		txns := make([]broker.Txn, len(there))
		for i, d := range there {
			txns[i] = d.txn
		}
		var results []broker.Result
		if len(txns) > 0 {
			results = c.broker.Commit(ctx, txns...)
		}
		for i, r := range results {
			d := there[i]
			if broker.MaybeApplied(r.Err) {
				d.tried, d.doubt = d.live, r.Err
			}
			if !r.OK && d.failed(cmp.Or(r.Err, errChangedSince)) {
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
func (c *Client) readToDelete(ctx context.Context, open []*deleting, note bool) (there, again []*deleting) {
	by := Caller(ctx)
	note = note && by != ""
	txns := make([]broker.Txn, len(open))
	for i, d := range open {
		// A task exists by its own key or, in the older form, by its properties.
		both := []broker.Op{broker.Read(c.space.Owner(d.id))}
		if note {
			both = append(both, broker.Read(c.space.History(d.id)))
		}
		task := c.space.Task(d.id)
		txns[i] = broker.Txn{
			If:   []broker.Cond{broker.Exists(task)},
			Then: append([]broker.Op{broker.Read(task)}, both...),
			Else: append([]broker.Op{broker.Read(c.space.Props(d.id))}, append(both, broker.Read(c.space.State(d.id)))...),
		}
	}
	for i, r := range c.broker.Commit(ctx, txns...) {
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
			d.txn = c.deletion(d, r.OK, r.Reads[1])
			if note {
				d.note(by, r.Reads[2], r.Reads[1])
			}
			there = append(there, d)
		}
	}
	return there, again
}

// deletion returns the transaction that deletes exactly the task that was read.
func (c *Client) deletion(d *deleting, own bool, owner *broker.KV) broker.Txn {
	txn := broker.Txn{If: []broker.Cond{d.live}}
	if !own { // it exists by its properties alone
		txn.If = append(txn.If, broker.Absent(c.space.Task(d.id)))
	}
	txn.Then = []broker.Op{
		broker.Delete(c.space.Task(d.id)), broker.Delete(c.space.Props(d.id)), broker.Delete(c.space.TaskCommand(d.id)),
		broker.Delete(c.space.Progress(d.id)), broker.Delete(c.space.Requeue(d.id)), broker.Delete(c.space.Handover(d.id)),
	}
	if keys.CheckJobID(d.id) == nil {
		txn.Then = append(txn.Then, broker.Delete(c.space.Job(d.id)))
	}
	if owner != nil && owner.Session == 0 {
		// In the oldest form a claim belongs to no session, and nobody gives it up.
		txn.If = append(txn.If, broker.Created(owner.Key, owner.Created))
		txn.Then = append(txn.Then, broker.Delete(owner.Key), broker.Delete(c.space.Claim(d.id)))
	}
	return txn
}

func (d *deleting) note(by string, history, owner *broker.KV) {
	if value, ok := noted(history, owner, "delete, by "+by, 0); ok {
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
