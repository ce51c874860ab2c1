package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/statemachine"
)

// savedProgress is what a claim knows of its task's stored progress.
type savedProgress struct {
	// turn has one element while a call is in progress: a later one waits.
	turn chan struct{}
	// revision is the revision of the stored progress. It is zero if there is none or
	// it was not read yet.
	revision broker.Revision
}

func (c *Claim) progress() *savedProgress {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saved == nil {
		c.saved = &savedProgress{turn: make(chan struct{}, 1)}
	}
	return c.saved
}

// take waits until no other call is in progress. The caller must call done.
func (p *savedProgress) take(ctx context.Context) (done func(), err error) {
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Checkpoint saves the JSON of v, at most ProgressBytesMax, as the task's progress. The
// next run of the task can read it with Progress, on any node. Checkpoint returns once
// the progress is stored, and retries while the broker is unreachable. It fails with
// ErrFenced, ErrDeleted or ErrLost if the claim is gone, and when ctx is done.
// Checkpoints of many tasks share requests.
func (c *Claim) Checkpoint(ctx context.Context, v any) error {
	value, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("progress of task %q: %w", c.held.ID, err)
	}
	if len(value) > ProgressBytesMax {
		return badInput("progress", fmt.Sprintf("%d bytes", len(value)), fmt.Sprintf("must be at most %d bytes of JSON", ProgressBytesMax))
	}
	p := c.progress()
	done, err := p.take(ctx)
	if err != nil {
		return fmt.Errorf("progress of task %q: %w", c.held.ID, err)
	}
	defer done()
	e := c.held.Ending(coordinator.Checkpoint)
	e.State, e.Replaces = value, p.revision
	for {
		ended, err := c.in.store(ctx, e)
		switch {
		case err != nil:
			return fmt.Errorf("progress of task %q: %w", c.held.ID, err)
		case ended.Err == nil:
			p.revision = ended.StateRevision
			return nil
		case errors.Is(ended.Err, coordinator.ErrStateChanged):
			// An earlier owner saved progress, or an earlier attempt was applied late:
			// what the current owner writes replaces it.
			e.Replaces = ended.StateRevision
		case errors.Is(ended.Err, coordinator.ErrGone):
			return fmt.Errorf("progress of task %q: %w", c.held.ID, ErrDeleted)
		case broker.Temporary(ended.Err):
			e.Again = e.Again || broker.MaybeApplied(ended.Err)
			if !pause.For(ctx, retryEnd) {
				return fmt.Errorf("progress of task %q: %w", c.held.ID, errors.Join(context.Cause(ctx), ended.Err))
			}
		default:
			return fmt.Errorf("progress of task %q: %w", c.held.ID, ended.Err)
		}
	}
}

// Restarted records that the handler starts again what it runs, such as a process. Lists
// show the latest call until the handler returns; the history has an entry when a loop begins.
// A handler calls it for each restart, and once more with none in a row when that has lasted.
// It is written as the history is, in the background.
func (c *Claim) Restarted(restarts statemachine.Restarts) {
	restarts.LastEnd = shorten.Line(restarts.LastEnd, statemachine.HistoryDetailBytesMax/2)
	c.in.arrive(func() {
		if r := c.in.runs[c.held.ID]; r != nil && r.claim == c {
			c.in.out.audit.Restarted(&c.held, restarts)
		}
	})
}

// Progress returns what the task's last Checkpoint saved on any node, as JSON; nil if
// there is none. It reads from the broker, and retries while that is unreachable until
// ctx is done.
func (c *Claim) Progress(ctx context.Context) (json.RawMessage, error) {
	p := c.progress()
	done, err := p.take(ctx)
	if err != nil {
		return nil, fmt.Errorf("progress of task %q: %w", c.held.ID, err)
	}
	defer done()
	kv, err := patientGet(ctx, c.in.config.Broker, c.in.node.space.Progress(c.held.ID))
	value, err := progressIn(c.held.ID, kv, err)
	if err == nil {
		p.revision = kv.Modified
	}
	return value, err
}

// store passes a checkpoint to the loop and waits for its outcome.
func (in *incarnation) store(ctx context.Context, e coordinator.Ending) (coordinator.Ended, error) {
	outcome := make(chan coordinator.Ended, 1)
	select {
	case in.inbox <- func() { in.out.checkpoints.Put(outcome, e, time.Time{}) }:
	case <-in.over:
		return coordinator.Ended{}, ErrLost
	case <-ctx.Done():
		return coordinator.Ended{}, context.Cause(ctx)
	}
	select {
	case ended := <-outcome:
		return ended, nil
	case <-in.over:
		return coordinator.Ended{}, ErrLost
	case <-ctx.Done():
		return coordinator.Ended{}, context.Cause(ctx)
	}
}
