package windlass

import (
	"context"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/statemachine"
)

// Delete removes a task with its properties and its pending command, and a job from the
// tree. Its state stays. A running handler is stopped, and its node gives the claim up
// only when the handler has returned. A task that is submitted under the same ID does
// not run before that. The task's history names who deleted it (WithCaller), if it has
// ever been claimed. What waits for the task does not wait any more, and runs if nothing else
// keeps it: Delete does not look for that. Delete returns ErrNotFound if no such task is live.
func (c *Client) Delete(ctx context.Context, id string) error {
	if err := keys.CheckTaskID(id); err != nil {
		return err
	}
	if err := c.checkLayout(ctx); err != nil {
		return fmt.Errorf("delete task %q: %w", id, err)
	}
	var tried broker.Cond // identifies the task that an attempt may have deleted
	for attempt := range attemptsMax {
		txn, found, err := c.deletion(ctx, id, attempt < attemptsMax/2)
		if err != nil {
			return fmt.Errorf("delete task %q: %w", id, err)
		}
		if tried.Key != "" && !slices.Contains(txn.If, tried) {
			return nil
		}
		if !found {
			return c.notDeletable(ctx, id)
		}
		r, maybe, err := c.persist(ctx, txn)
		if err != nil {
			return fmt.Errorf("delete task %q: %w", id, err)
		}
		if r.OK {
			return nil
		}
		if maybe {
			if tried = txn.If[0]; tried.Kind != broker.CondCreated {
				tried = txn.If[1]
			}
		}
	}
	return fmt.Errorf("delete task %q: it changes too often", id)
}

// notDeletable returns the error for a task that is not live: ErrNotFound, with what is left
// of it.
func (c *Client) notDeletable(ctx context.Context, id string) error {
	err := fmt.Errorf("task %q: %w", id, ErrNotFound)
	if kv, readErr := c.broker.Get(ctx, c.space.State(id)); readErr == nil {
		if record, parseErr := statemachine.Parse(kv.Value); parseErr == nil && record.State.Terminal() {
			err = fmt.Errorf("%w among the live tasks: it is %s, and to be forgotten by pruning", err, record.State)
		}
	}
	return err
}

// deletion reads a task and builds the transaction that deletes exactly that task. If
// it is applied late, it must not affect another task that was submitted under the same
// ID since. With note it notes who deletes it, which fails if the history is written
// meanwhile.
func (c *Client) deletion(ctx context.Context, id string, note bool) (txn broker.Txn, found bool, err error) {
	task, props, owner := c.space.Task(id), c.space.Props(id), c.space.Owner(id)
	read := []broker.Op{
		broker.Read(task), broker.Read(props), broker.Read(owner),
	}
	by := callerOf(ctx)
	if note = note && by != ""; note {
		read = append(read, broker.Read(c.space.History(id)))
	}
	r, err := broker.CommitOne(ctx, c.broker, broker.Txn{Then: read})
	if err != nil {
		return broker.Txn{}, false, err
	}
	// A task exists by its own key or, in the older form, by its properties.
	for i, key := range []string{task, props} {
		if kv := r.Reads[i]; kv == nil {
			txn.If = append(txn.If, broker.Absent(key))
		} else {
			txn.If = append(txn.If, broker.Created(key, kv.Created))
			found = true
		}
	}
	txn.Then = []broker.Op{
		broker.Delete(task), broker.Delete(props), broker.Delete(c.space.TaskCommand(id)), broker.Delete(c.space.Progress(id)),
		broker.Delete(c.space.Requeue(id)), broker.Delete(c.space.Handover(id)),
	}
	if keys.CheckJobID(id) == nil {
		txn.Then = append(txn.Then, broker.Delete(c.space.Job(id)))
	}
	if kv := r.Reads[2]; kv != nil && kv.Session == 0 {
		// In the oldest form a claim belongs to no session, and nobody gives it up.
		txn.If = append(txn.If, broker.Created(owner, kv.Created))
		txn.Then = append(txn.Then, broker.Delete(owner), broker.Delete(c.space.Claim(id)))
	}
	if note {
		if value, ok := noted(r.Reads[3], r.Reads[2], "delete, by "+by, 0); ok {
			txn.If = append(txn.If, broker.Modified(r.Reads[3].Key, r.Reads[3].Modified))
			txn.Then = append(txn.Then, broker.Put(r.Reads[3].Key, value))
		}
	}
	return txn, found, nil
}
