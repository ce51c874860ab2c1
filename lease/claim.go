package lease

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/statemachine"
)

// claim is the claim of a lease.
type claim struct {
	coordinator.Granted
	coord     coordinator.Coordinator
	session   broker.SessionID
	owner     string
	claimedAt time.Time
	spec      windlass.Spec
	// record is the stored state record, to be changed.
	record statemachine.Record
}

// begin writes the record of a claim. It then writes the history, which nothing depends
// on, and, for a task that slept or was paused, that it is runnable.
func (c *claim) begin(ctx context.Context, incarnation string) error {
	at := c.claimedAt.UTC()
	record := &coordinator.Record{ClaimedAt: at, Incarnation: incarnation, Reason: coordinator.ReasonDetached}
	for attempt := 1; ; attempt++ {
		err := c.coord.Audit(ctx, []coordinator.AuditRecord{{ID: c.ID, Token: c.Token, Claimed: record}})[0]
		if err == nil {
			break
		}
		if !attempts.PauseAfter(ctx, err, attempt) {
			return err
		}
	}
	c.note(ctx, at, statemachine.EventClaimed, coordinator.ReasonDetached)
	var err error
	if c.record, err = statemachine.Parse(c.State); err != nil || c.record.State == statemachine.Runnable {
		return err
	}
	now := time.Now()
	c.record.State, c.record.Until, c.record.TypePaused = statemachine.Runnable, nil, false
	if err := c.save(ctx); err != nil {
		return err
	}
	c.note(ctx, now, statemachine.Event(statemachine.Runnable), "")
	return nil
}

// note adds an entry to the history of the task, if it can.
func (c *claim) note(ctx context.Context, at time.Time, event statemachine.Event, detail string) {
	c.coord.Audit(ctx, []coordinator.AuditRecord{{ID: c.ID, Token: c.Token, History: []statemachine.HistoryEntry{
		{At: at.UTC(), Event: event, Node: c.owner, Token: int64(c.Token), Detail: detail},
	}}})
}

func (c *claim) complete(ctx context.Context, result json.RawMessage) error {
	c.record.State, c.record.Until, c.record.Result = statemachine.Completed, nil, result
	return c.done(ctx)
}

// fail records an error and what follows from it.
func (c *claim) fail(ctx context.Context, failure error) error {
	now, policy := time.Now(), c.spec.RetryPolicy()
	c.record.Failures = policy.CountFailure(c.record.Errors, c.record.Failures, now)
	c.record.Errors = statemachine.AddError(c.record.Errors, now.UTC(), failure.Error())
	decision := statemachine.Fail(failure.Error())
	if !windlass.IsPermanent(failure) {
		decision = policy.HandleErrors(c.record.Errors, c.record.Failures, now, rand.Float64())
	}
	if decision.Message != statemachine.Sleep {
		c.record.State, c.record.Until = statemachine.Failed, nil
		return c.done(ctx)
	}
	// While it sleeps a node holds it, like any sleeping task; so the claim is given back
	// once that is stored.
	c.record.State, c.record.Until = statemachine.Sleeping, decision.Until
	if err := c.save(ctx); err != nil {
		return err
	}
	c.note(ctx, now, statemachine.Event(statemachine.Sleeping), statemachine.SleepDetail(*decision.Until, failure.Error()))
	_ = c.giveBack(ctx) // the claim ends with its session anyway, and a second failure would count as a second error
	return nil
}

// ending returns an ending with the record.
func (c *claim) ending(kind coordinator.Kind) (e coordinator.Ending, err error) {
	claimedAt := c.claimedAt.UTC()
	c.record.Node, c.record.ClaimedAt = c.owner, &claimedAt
	e = c.Ending(kind)
	return e, c.spec.StoreRecord(&e, c.record, c.Props)
}

// save stores the record.
func (c *claim) save(ctx context.Context) error {
	e, err := c.ending(coordinator.Save)
	if err != nil {
		return err // cannot be: the record was read from the store
	}
	e.Replaces = c.StateRevision
	return attempts.End(ctx, c.coord, e).Err
}

// done ends the task in the state of the record.
func (c *claim) done(ctx context.Context) error {
	e, err := c.ending(coordinator.Done)
	if err != nil {
		return err // cannot be: its result was checked
	}
	ended := attempts.End(ctx, c.coord, e)
	switch {
	case ended.Err != nil:
		return ended.Err
	case ended.Requeued:
		c.note(ctx, e.At, statemachine.EventRequeued, statemachine.DetailRequeued)
	case c.record.State == statemachine.Failed:
		c.note(ctx, e.At, statemachine.Event(c.record.State), statemachine.LastError(c.record.Errors))
	default:
		c.note(ctx, e.At, statemachine.Event(c.record.State), "")
	}
	return nil
}

// giveBack releases the claim.
func (c *claim) giveBack(ctx context.Context) error {
	e := c.Ending(coordinator.Release)
	ended := attempts.End(ctx, c.coord, e)
	if ended.Err == nil {
		c.note(ctx, e.At, statemachine.EventReleased, "by its holder")
	}
	return ended.Err
}
