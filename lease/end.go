package lease

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/specs"
	"github.com/windlass-go/windlass/statemachine"
)

// release is the ending that leaves the task as it is.
const release = "release"

// end finds a claim, ends it with how, and ends its session.
func (l *Leases) end(ctx context.Context, what, id string, token int64, how func(*claim) error) error {
	if err := keys.CheckTaskID(id); err != nil {
		return err
	}
	err := l.layout.Check(ctx, l.broker, l.space)
	var c *claim
	if err == nil {
		c, err = l.held(ctx, id, broker.Revision(token))
	}
	if err == nil {
		ended := func(events.SpanEnd) {}
		if what != release {
			ended = l.trace(ctx, events.SpanComplete, time.Now(), c)
		}
		err = how(c)
		ended(events.SpanEnd{Outcome: events.Outcome(c.record.State), Err: err})
	}
	switch {
	case errors.Is(err, coordinator.ErrGone): // it was deleted, and nobody needs the claim
		err = windlass.ErrFenced
	case errors.Is(err, coordinator.ErrStateChanged): // somebody ends it at the same time
		return fmt.Errorf("%s task %q: %w", what, id, windlass.ErrFenced)
	case err != nil:
		return fmt.Errorf("%s task %q: %w", what, id, err)
	}
	attempts.Revoke(ctx, l.broker, c.session)
	if err != nil {
		return fmt.Errorf("%s task %q: %w", what, id, err)
	}
	return nil
}

// held reads the claim of a token if it is still held and is not a node's.
func (l *Leases) held(ctx context.Context, id string, token broker.Revision) (*claim, error) {
	r, err := broker.CommitOne(ctx, l.broker, broker.Txn{Then: []broker.Op{
		broker.Read(l.space.Owner(id)), broker.Read(l.space.Claim(id)), broker.Read(l.space.Task(id)),
		broker.Read(l.space.Props(id)), broker.Read(l.space.State(id)),
	}})
	if err != nil {
		return nil, err
	}
	owner, recorded := r.Reads[0], r.Reads[1]
	switch {
	case owner == nil && r.Reads[2] == nil && r.Reads[3] == nil && r.Reads[4] == nil:
		return nil, windlass.ErrNotFound
	case owner == nil, owner.Created != token:
		return nil, windlass.ErrFenced
	}
	c := &claim{session: owner.Session, owner: mirror.ParseOwner(owner.Value)}
	var record coordinator.Record
	// The session that is revoked in the end must be that of this claim alone.
	if owner.Session == 0 || recorded == nil || recorded.Session != owner.Session ||
		json.Unmarshal(recorded.Value, &record) != nil || record.Reason != coordinator.ReasonDetached {
		return nil, fmt.Errorf("%w: it is held by node %q, and only that can end it", windlass.ErrWorking, c.owner)
	}
	c.claimedAt = record.ClaimedAt
	c.coord, err = coordinator.New(l.broker, coordinator.Identity{
		Namespace: l.space.Root(), Node: c.owner, Session: c.session, Incarnation: record.Incarnation,
	})
	if err != nil {
		return nil, err
	}
	return c, c.read(ctx, id, token)
}

// read reads the claimed task.
func (c *claim) read(ctx context.Context, id string, token broker.Revision) error {
	adopted := c.coord.Adopt(ctx, []string{id})[0]
	switch err := adopted.Err; {
	case errors.Is(err, coordinator.ErrOwned), errors.Is(err, coordinator.ErrGone), err == nil && adopted.Token != token:
		return windlass.ErrFenced
	case err != nil:
		return err
	}
	c.Granted = adopted.Granted
	var err error
	if c.spec, err = specs.Parse(c.Spec); err != nil {
		return err
	}
	c.record, err = statemachine.Parse(c.State)
	return err
}

// trace begins a span of a claim; the function it returns ends the span.
func (l *Leases) trace(ctx context.Context, op string, at time.Time, c *claim) func(events.SpanEnd) {
	if l.tracer == nil {
		return func(events.SpanEnd) {}
	}
	start := events.SpanStart{Op: op, At: at, Task: c.ID, Type: c.spec.Type, Node: c.owner, Token: int64(c.Token)}
	if op == events.SpanClaim {
		start.Cause = events.Dequeued
	}
	if events.ValidTrace(c.spec.Trace) {
		start.Parent = c.spec.Trace
		ctx = context.Background() // the task's own trace is what it belongs to
	}
	_, span := l.tracer.Start(ctx, start)
	return span.End
}
