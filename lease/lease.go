// Package lease claims tasks for work that no process of ours lives through, such as a shell script that takes a task in one
// process and completes it in another: a task is claimed for a time, and whoever knows the token of the claim may end it.
//
// A program that works on tasks should have a node: windlass.Node.Dequeue holds a task for as long as the program
// lives and tells it when the claim is lost. A lease does neither. When its time is over, any node may claim the task,
// whatever the holder is doing; the holder's own writes elsewhere are safe only if they are fenced by the token.
package lease

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/invalid"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/layout"
	"github.com/windlass-go/windlass/session"
)

// Leases takes and ends leases in a namespace. Its methods are safe for concurrent use. Broker errors are passed on as
// those of package broker. It writes nothing, and returns windlass.ErrLayout, if the layout is newer than this version
// supports.
type Leases struct {
	broker broker.Broker
	space  keys.Space
	layout layout.Guard
	// tracer is nil for none.
	tracer events.Tracer
}

// New returns the leases in a client's namespace. A tracer records spans of the claims and of how they end; it may be
// nil.
func New(client *windlass.Client, tracer events.Tracer) *Leases {
	space, _ := keys.New(client.Namespace()) // which the client has checked
	return &Leases{broker: client.Broker(), space: space, tracer: tracer}
}

// Lease is a task that is claimed for a time. Its JSON is stable.
type Lease struct {
	ID string `json:"id"`
	// Type of the task.
	Type string `json:"type"`
	// Owner is the holder, in place of a node.
	Owner string `json:"owner"`
	// Token is the fencing token of the claim.
	Token int64 `json:"token"`
	// Until is when the claim ends, by the clock of who took it.
	Until time.Time       `json:"until"`
	Props json.RawMessage `json:"props"`
}

// Dequeue claims the next task of a type, in the order of windlass.Node.Dequeue, for an owner. The owner's name follows
// the rules for node names and must not be that of a node. The claim ends by itself after ttl, from session.TTLMin to
// session.TTLMax; zero means session.TTLDefault. Dequeue returns windlass.ErrEmpty if there is nothing to take, or the
// type is paused. Tasks that require labels, or are pinned to a node other than the owner, are left to nodes.
func (l *Leases) Dequeue(ctx context.Context, taskType, owner string, ttl time.Duration) (Lease, error) {
	if err := l.check(ctx, taskType, owner, ttl); err != nil {
		return Lease{}, err
	}
	found, err := l.open(ctx, taskType, owner)
	if err != nil {
		return Lease{}, fmt.Errorf("dequeue %q: %w", taskType, err)
	}
	if len(found) == 0 {
		return Lease{}, fmt.Errorf("type %q: %w", taskType, windlass.ErrEmpty)
	}
	began := time.Now()
	granted, err := attempts.Grant(ctx, l.broker, cmp.Or(ttl, session.TTLDefault))
	if err != nil {
		return Lease{}, fmt.Errorf("dequeue %q: %w", taskType, err)
	}
	lease, err := l.claim(ctx, granted.ID, owner, found)
	if err != nil {
		// The session's end also ends a claim that may have been made.
		attempts.Revoke(ctx, l.broker, granted.ID)
		return Lease{}, fmt.Errorf("dequeue %q: %w", taskType, err)
	}
	lease.Until = began.Add(granted.TTL).UTC()
	return lease, nil
}

// check returns an error if the arguments of Dequeue are invalid, or nothing may be claimed.
func (l *Leases) check(ctx context.Context, taskType, owner string, ttl time.Duration) error {
	if taskType != "" {
		if err := keys.CheckType(taskType); err != nil {
			return err
		}
	}
	if err := keys.CheckNodeName(owner); err != nil {
		return err
	}
	if err := session.CheckTTL(ttl); err != nil {
		return &invalid.Input{Field: "lease", Value: ttl.String(), Limit: fmt.Sprintf("must be from %v to %v", session.TTLMin, session.TTLMax)}
	}
	if err := l.layout.Check(ctx, l.broker, l.space); err != nil {
		return fmt.Errorf("dequeue %q: %w", taskType, err)
	}
	r, err := broker.CommitOne(ctx, l.broker, broker.Txn{Then: []broker.Op{
		broker.Read(l.space.NodeInfo(owner)), broker.Read(l.space.TypePause(taskType)),
	}})
	switch {
	case err != nil:
		return fmt.Errorf("dequeue %q: %w", taskType, err)
	case r.Reads[0] != nil:
		return fmt.Errorf("owner %q: %w", owner, windlass.ErrNameTaken)
	case r.Reads[1] != nil:
		return fmt.Errorf("%w: type %q is paused", windlass.ErrEmpty, taskType)
	}
	return nil
}

// Complete ends a leased task for good, by its ID and the token of the claim. The result is any JSON of at most
// windlass.ResultBytesMax, see windlass.Claim.SetResult, or nil. It returns windlass.ErrFenced if the claim is no longer
// held, windlass.ErrWorking if a node holds it, and windlass.ErrNotFound if nothing is known of the task.
func (l *Leases) Complete(ctx context.Context, id string, token int64, result json.RawMessage) error {
	if err := (windlass.Spec{}).CheckResult(result, nil); err != nil {
		return err
	}
	return l.end(ctx, "complete", id, token, func(c *claim) error {
		if err := c.spec.CheckResult(result, c.Props); err != nil {
			return err
		}
		return c.complete(ctx, result)
	})
}

// Fail reports that a leased task failed. It sleeps and runs again, or fails for good, as its Spec.Retry decides; with
// windlass.Permanent(err) it fails at once. The error handlers of nodes are not called. A nil error counts as an unknown
// error. The errors are those of Complete.
func (l *Leases) Fail(ctx context.Context, id string, token int64, err error) error {
	if err == nil {
		err = errors.New("unknown error")
	}
	return l.end(ctx, "fail", id, token, func(c *claim) error { return c.fail(ctx, err) })
}

// Release gives a leased task back; others may take it at once. The errors are those of Complete.
func (l *Leases) Release(ctx context.Context, id string, token int64) error {
	return l.end(ctx, release, id, token, func(c *claim) error { return c.giveBack(ctx) })
}
