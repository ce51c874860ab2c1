package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/stored"
	"github.com/windlass-go/windlass/statemachine"
)

// detachedClaim is the claim of a Detached that is about to end.
type detachedClaim struct {
	coordinator.Granted
	coord     coordinator.Coordinator
	session   broker.SessionID
	owner     string
	claimedAt time.Time
	spec      Spec
	// record is what was stored, to be changed.
	record statemachine.Record
}

// CompleteDetached ends a task for good that is held detached, by its ID and the
// token of the claim, with its result: any JSON of at most ResultBytesMax, or nil.
// It returns ErrFenced when the claim is not held any more, ErrWorking when it is a
// node's, and ErrNotFound when nothing is known of the task.
func (c *Client) CompleteDetached(ctx context.Context, id string, token int64, result json.RawMessage) error {
	if n := len(result); n > ResultBytesMax {
		return badInput("result", fmt.Sprintf("%d bytes", n), fmt.Sprintf("must be at most %d bytes of JSON", ResultBytesMax))
	}
	if len(result) > 0 && !stored.Valid(result) {
		return badInput("result", string(result), "must be valid JSON, in UTF-8")
	}
	return c.endDetached(ctx, "complete", id, token, func(d *detachedClaim) error {
		d.record.State, d.record.Until, d.record.Result = statemachine.Completed, nil, result
		return d.done(ctx)
	})
}

// FailDetached says that a task failed that is held detached: it sleeps and runs
// again, or fails for good, as its Spec.Retry decides; with Permanent(err) at
// once. The error handlers of nodes are not asked. Nothing counts as an unknown
// error. Its errors are those of CompleteDetached.
func (c *Client) FailDetached(ctx context.Context, id string, token int64, err error) error {
	if err == nil {
		err = errors.New("unknown error")
	}
	return c.endDetached(ctx, "fail", id, token, func(d *detachedClaim) error {
		if d.fault(err) {
			return d.done(ctx)
		}
		// While it sleeps it is held by a node, as any task that sleeps; so the
		// claim is given back once that is stored.
		if err := d.save(ctx); err != nil {
			return err
		}
		d.note(ctx, statemachine.Event(statemachine.Sleeping), "until "+d.record.Until.UTC().Format(time.RFC3339))
		_ = d.giveBack(ctx) // with its session it goes anyway, and said twice it would be two errors
		return nil
	})
}

// ReleaseDetached gives a task back that is held detached; others may take it at
// once. Its errors are those of CompleteDetached.
func (c *Client) ReleaseDetached(ctx context.Context, id string, token int64) error {
	return c.endDetached(ctx, release, id, token, func(d *detachedClaim) error { return d.giveBack(ctx) })
}

// release is the ending that leaves the task as it is.
const release = "release"

// endDetached finds a claim, has it ended, and ends its session.
func (c *Client) endDetached(ctx context.Context, what, id string, token int64, end func(*detachedClaim) error) error {
	if err := keys.CheckTaskID(id); err != nil {
		return badName(err)
	}
	err := c.checkLayout(ctx)
	var d *detachedClaim
	if err == nil {
		d, err = c.heldDetached(ctx, id, broker.Revision(token))
	}
	if err == nil {
		ended := func(SpanEnd) {}
		if what != release {
			ended = c.traceDetached(ctx, SpanComplete, time.Now(), d.Granted, d.owner, d.spec)
		}
		err = end(d)
		ended(SpanEnd{Outcome: Outcome(d.record.State), Err: err})
	}
	switch {
	case errors.Is(err, coordinator.ErrGone): // it was deleted, and the claim is of no use to anybody
		err = ErrFenced
	case errors.Is(err, coordinator.ErrStateChanged): // somebody ends it at the same time
		return fmt.Errorf("%s task %q: %w", what, id, ErrFenced)
	case err != nil:
		return fmt.Errorf("%s task %q: %w", what, id, err)
	}
	c.revokeDetached(ctx, d.session)
	if err != nil {
		return fmt.Errorf("%s task %q: %w", what, id, err)
	}
	return nil
}

// heldDetached reads the claim of a token, if it is held, and nobody's node holds
// it.
func (c *Client) heldDetached(ctx context.Context, id string, token broker.Revision) (*detachedClaim, error) {
	r, err := broker.CommitOne(ctx, c.broker, broker.Txn{Then: []broker.Op{
		broker.Read(c.space.Owner(id)), broker.Read(c.space.Claim(id)), broker.Read(c.space.Task(id)),
		broker.Read(c.space.Props(id)), broker.Read(c.space.State(id)),
	}})
	if err != nil {
		return nil, err
	}
	owner, claim := r.Reads[0], r.Reads[1]
	switch {
	case owner == nil && r.Reads[2] == nil && r.Reads[3] == nil && r.Reads[4] == nil:
		return nil, ErrNotFound
	case owner == nil, owner.Created != token:
		return nil, ErrFenced
	}
	d := &detachedClaim{session: owner.Session, owner: mirror.ParseOwner(owner.Value)}
	var noted coordinator.Record
	// The session that is revoked in the end must be that of this claim alone.
	if owner.Session == 0 || claim == nil || claim.Session != owner.Session ||
		json.Unmarshal(claim.Value, &noted) != nil || noted.Reason != coordinator.ReasonDetached {
		return nil, fmt.Errorf("%w: it is held by node %q, and only that can end it", ErrWorking, d.owner)
	}
	d.claimedAt = noted.ClaimedAt
	d.coord, err = coordinator.New(c.broker, coordinator.Identity{
		Namespace: c.space.Root(), Node: d.owner, Session: d.session, Incarnation: noted.Incarnation,
	})
	if err != nil {
		return nil, err
	}
	return d, d.read(ctx, id, token)
}

// read reads what was claimed.
func (d *detachedClaim) read(ctx context.Context, id string, token broker.Revision) error {
	adopted := d.coord.Adopt(ctx, []string{id})[0]
	switch err := adopted.Err; {
	case errors.Is(err, coordinator.ErrOwned), errors.Is(err, coordinator.ErrGone), err == nil && adopted.Token != token:
		return ErrFenced
	case err != nil:
		return err
	}
	d.Granted = adopted.Granted
	var err error
	if d.spec, err = parseSpec(d.Spec); err != nil {
		return err
	}
	d.record, err = statemachine.Parse(d.State)
	return err
}

// fault records an error and decides what follows from it: true if that is the end
// of the task.
func (d *detachedClaim) fault(err error) (failed bool) {
	now, policy := time.Now(), d.spec.retryPolicy()
	d.record.Failures = policy.CountFailure(d.record.Errors, d.record.Failures, now)
	d.record.Errors = statemachine.AddError(d.record.Errors, now.UTC(), err.Error())
	decision := statemachine.Fail(err.Error())
	if !isPermanent(err) {
		decision = policy.HandleErrors(d.record.Errors, d.record.Failures, now, rand.Float64())
	}
	if decision.Message == statemachine.Sleep {
		d.record.State, d.record.Until = statemachine.Sleeping, decision.Until
		return false
	}
	d.record.State, d.record.Until = statemachine.Failed, nil
	return true
}

// ending writes the record.
func (d *detachedClaim) ending(kind coordinator.Kind) coordinator.Ending {
	now, claimedAt := time.Now().UTC(), d.claimedAt.UTC()
	r := &d.record
	r.Type, r.Priority, r.Digest, r.SubmittedAt = d.spec.Type, d.spec.Priority, d.spec.Digest, nil
	if at := d.spec.SubmittedAt; !at.IsZero() {
		r.SubmittedAt = &at
	}
	r.Node, r.Token, r.ClaimedAt, r.ChangedAt = d.owner, int64(d.Token), &claimedAt, &now
	e := d.Ending(kind)
	e.State, _ = r.Encode() // it does: its result was checked
	return e
}

// save stores the record.
func (d *detachedClaim) save(ctx context.Context) error {
	e := d.ending(coordinator.Save)
	e.Replaces = d.StateRevision
	return endPatiently(ctx, d.coord, e).Err
}

// done ends the task in the state of the record.
func (d *detachedClaim) done(ctx context.Context) error {
	e := d.ending(coordinator.Done)
	e.Forget = d.record.State == statemachine.Completed
	e.Mark = failureMark(d.record.State, d.spec.OnFailure)
	ended := endPatiently(ctx, d.coord, e)
	switch {
	case ended.Err != nil:
		return ended.Err
	case ended.Requeued:
		d.note(ctx, statemachine.EventRequeued, "as it was queued while it ran")
	default:
		d.note(ctx, statemachine.Event(d.record.State), "")
	}
	return nil
}

// giveBack releases the claim.
func (d *detachedClaim) giveBack(ctx context.Context) error {
	ended := endPatiently(ctx, d.coord, d.Ending(coordinator.Release))
	if ended.Err == nil {
		d.note(ctx, statemachine.EventReleased, "by its holder")
	}
	return ended.Err
}

func (d *detachedClaim) note(ctx context.Context, event statemachine.Event, detail string) {
	if event == statemachine.Event(statemachine.Failed) {
		detail = lastError(d.record.Errors)
	}
	noteHistory(ctx, d.coord, d.Granted, statemachine.HistoryEntry{
		At: time.Now().UTC(), Event: event, Node: d.owner, Detail: detail,
	})
}

// endPatiently ends a claim, again and again while it is not known whether it was.
func endPatiently(ctx context.Context, coord coordinator.Coordinator, e coordinator.Ending) coordinator.Ended {
	for attempt := 1; ; attempt++ {
		ended := coord.End(ctx, []coordinator.Ending{e})[0]
		if ended.Err == nil || !pauseAfter(ctx, ended.Err, attempt) {
			return ended
		}
		e.Again = e.Again || broker.MaybeApplied(ended.Err)
	}
}
