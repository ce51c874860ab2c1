package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// Client submits, inspects and directs; it runs nothing. Its methods are safe
// for concurrent use. Errors of the broker come through as package broker's.
type Client struct {
	broker broker.Broker
	space  keys.Space
}

// NewClient returns a client for a namespace; an empty one is
// NamespaceDefault. The client does not close the broker.
func NewClient(b broker.Broker, namespace string) (*Client, error) {
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
	return &Client{broker: b, space: space}, nil
}

// Delete removes a task with its properties, its claim and its pending command;
// its state stays. A running handler is stopped. It returns ErrNotFound when no
// such task is live.
func (c *Client) Delete(ctx context.Context, id string) error {
	if err := keys.CheckTaskID(id); err != nil {
		return badName(err)
	}
	// A task exists by its own key or, in the older form, by its properties.
	again := false
	for _, exists := range []string{c.space.Task(id), c.space.Props(id)} {
		txn := broker.Txn{
			If: []broker.Cond{broker.Exists(exists)},
			Then: []broker.Op{
				broker.Delete(c.space.Task(id)), broker.DeleteTree(c.space.TaskTree(id)),
				broker.Delete(c.space.Claim(id)), broker.Delete(c.space.TaskCommand(id)),
			},
		}
		r, maybe, err := c.persist(ctx, txn)
		if err != nil {
			return fmt.Errorf("delete task %q: %w", id, err)
		}
		if again = again || maybe; r.OK {
			return nil
		}
	}
	if again {
		return nil // an attempt whose outcome was unknown did it
	}
	return fmt.Errorf("task %q: %w", id, ErrNotFound)
}

// persist commits a transaction that can take effect only once, again and again
// while its outcome is unknown. maybe tells that an attempt before the last one
// may have been applied.
func (c *Client) persist(ctx context.Context, txn broker.Txn) (r broker.Result, maybe bool, err error) {
	for attempt := 1; ; attempt++ {
		r, err = broker.CommitOne(ctx, c.broker, txn)
		if err == nil || !broker.MaybeApplied(err) || attempt == attemptsMax || ctx.Err() != nil {
			return r, maybe, err
		}
		maybe = true
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(attempt) * attemptPause):
		}
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
		return badInput("parameters", shorten(string(command.Parameters)), "must be valid JSON")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("send a command: %w", err)
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
