package loadgen

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/windlass-go/windlass"
)

// gate is the task that those of the place phase need. No node may run it, so
// it is there until it is deleted.
const gate = "gate"

// placePhase has all tasks wait for another one, and deletes that: all nodes
// learn in one moment that they can be claimed.
func (b *bench) placePhase(ctx context.Context) error {
	if err := b.empty(ctx); err != nil {
		return err
	}
	shut := windlass.Submission{ID: gate, Spec: windlass.Spec{Node: "none"}}
	if err := b.client.Submit(ctx, shut); err != nil {
		return err
	}
	s, err := b.submit(ctx, gate)
	if err != nil {
		return err
	}
	b.reportSubmitted(PhasePlace, "submitted, tasks blocked", s)
	if err := b.rest(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := b.client.Delete(ctx, gate); err != nil {
		return err
	}
	if err := b.settle(ctx, "all tasks to run after they could be claimed", b.allRun); err != nil {
		return err
	}
	starts := b.ledger.starts()
	b.figure(PhasePlace, "placed", perSecond(b.tasks.count, lastStart(starts).Sub(began)), unitRate).
		against(limitClaims, b.limits.claimsPerSecond)
	b.times(PhasePlace, "until start", since(firstOf(starts), func(int) time.Time { return began }))
	b.reportRestarts(PhasePlace, starts)
	b.reportPlacement(PhasePlace)
	if err := b.written(ctx); err != nil {
		return err
	}
	b.figure(PhasePlace, "until all is written down", time.Since(began).Seconds()*1000, unitMilliseconds)
	b.curve(PhasePlace, began, line{to: b.tasks.count, perSecond: b.limits.claimsPerSecond})
	return nil
}

// sendAll sends a command to all live nodes at once.
func (b *bench) sendAll(ctx context.Context, command string) error {
	return b.within(ctx, "the command "+command+" to be sent", func(ctx context.Context) error {
		var all errgroup.Group
		for _, m := range b.fleet.live() {
			all.Go(func() error { return b.client.Send(ctx, nodeName(m.number), windlass.Command{Command: command}) })
		}
		return all.Wait()
	})
}

// rest leaves nodes a moment to take in what they have seen, so that what follows
// is measured alone.
func (b *bench) rest(ctx context.Context) error {
	return b.within(ctx, "the nodes to be at rest", func(ctx context.Context) error {
		return b.fleet.quiet(ctx, func([]int) bool { return true })
	})
}
