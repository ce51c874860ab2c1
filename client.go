package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// Client submits, inspects and directs; it runs nothing. Its methods are safe
// for concurrent use. Errors of the broker come through as package broker's. It
// writes nothing into a namespace whose layout is newer than it knows, and says
// ErrLayout instead.
type Client struct {
	broker broker.Broker
	space  keys.Space
	// layoutRead is when the layout was last read and found to be known.
	layoutRead atomic.Pointer[time.Time]
	// tracer is nil for none.
	tracer Tracer
	// copy is where lists are answered from, nil for the broker.
	copy *TaskCopy
}

// ClientOption is a setting of NewClient.
type ClientOption func(*Client)

// WithTracer has a client make spans of submissions and of detached claims.
func WithTracer(t Tracer) ClientOption { return func(c *Client) { c.tracer = t } }

// NewClient returns a client for a namespace; an empty one is
// NamespaceDefault. The client does not close the broker.
func NewClient(b broker.Broker, namespace string, options ...ClientOption) (*Client, error) {
	if b == nil {
		return nil, badInput("broker", "", "must be set")
	}
	if namespace == "" {
		namespace = NamespaceDefault
	}
	space, err := keys.New(namespace)
	if err != nil {
		return nil, badName(err)
	}
	c := &Client{broker: b, space: space}
	for _, option := range options {
		option(c)
	}
	return c, nil
}

// Delete removes a task with its properties and its pending command, and a job
// from the tree; its state stays. A running handler is stopped, and only when it
// has returned does its node give the claim up: until then a task that is submitted under the same ID
// is not run. It returns ErrNotFound when no such task is live.
func (c *Client) Delete(ctx context.Context, id string) error {
	if err := keys.CheckTaskID(id); err != nil {
		return badName(err)
	}
	if err := c.checkLayout(ctx); err != nil {
		return fmt.Errorf("delete task %q: %w", id, err)
	}
	var tried broker.Cond // names the task that an attempt may have deleted
	for range attemptsMax {
		txn, found, err := c.deletion(ctx, id)
		if err != nil {
			return fmt.Errorf("delete task %q: %w", id, err)
		}
		if tried.Key != "" && !slices.Contains(txn.If, tried) {
			return nil
		}
		if !found {
			return fmt.Errorf("task %q: %w", id, ErrNotFound)
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

// deletion reads a task and makes the transaction that deletes that very task.
// One that is applied late must not touch another that was submitted under its
// ID since.
func (c *Client) deletion(ctx context.Context, id string) (txn broker.Txn, found bool, err error) {
	task, props, owner := c.space.Task(id), c.space.Props(id), c.space.Owner(id)
	r, err := broker.CommitOne(ctx, c.broker, broker.Txn{Then: []broker.Op{
		broker.Read(task), broker.Read(props), broker.Read(owner),
	}})
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
	return txn, found, nil
}

// persist commits a transaction that can take effect only once, again and again
// while its outcome is unknown. maybe tells that an attempt before the last one
// may have been applied.
func (c *Client) persist(ctx context.Context, txn broker.Txn) (r broker.Result, maybe bool, err error) {
	for attempt := 1; ; attempt++ {
		r, err = broker.CommitOne(ctx, c.broker, txn)
		if err == nil || !broker.MaybeApplied(err) || !pauseAfter(ctx, err, attempt) {
			return r, maybe, err
		}
		maybe = true
	}
}

// Bounds of trying again while an outcome is unknown.
const (
	attemptsMax  = 5
	attemptPause = 100 * time.Millisecond
)

// Send sends a command to a node, to be carried out after those sent before. A
// node that is not there is ErrNotFound.
func (c *Client) Send(ctx context.Context, node string, command Command) error {
	if err := keys.CheckNodeName(node); err != nil {
		return badName(err)
	}
	if err := checkCommand(command); err != nil {
		return err
	}
	value, err := json.Marshal(command)
	if err != nil {
		return badInput("parameters", string(command.Parameters), "must be valid JSON")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("send a command: %w", err)
	}
	if err := c.checkLayout(ctx); err != nil {
		return fmt.Errorf("send a command to node %q: %w", node, err)
	}
	info, err := c.broker.Get(ctx, c.space.NodeInfo(node))
	if errors.Is(err, broker.ErrNotFound) {
		return fmt.Errorf("node %q: %w", node, ErrNotFound)
	}
	if err != nil {
		return fmt.Errorf("send a command to node %q: %w", node, err)
	}
	// The command lives with the node's session: it is lost when the node goes.
	r, maybe, err := c.persist(ctx, broker.Txn{
		If: []broker.Cond{
			broker.Created(c.space.NodeInfo(node), info.Created), broker.Absent(c.space.NodeCommand(node, id.String())),
		},
		Then: []broker.Op{broker.PutSession(c.space.NodeCommand(node, id.String()), value, info.Session)},
	})
	switch {
	case errors.Is(err, broker.ErrSessionExpired), err == nil && !r.OK && !maybe:
		return fmt.Errorf("node %q: %w", node, ErrNotFound)
	case err != nil:
		return fmt.Errorf("send a command to node %q: %w", node, err)
	}
	return nil
}
