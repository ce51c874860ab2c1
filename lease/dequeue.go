package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/specs"
	"github.com/windlass-go/windlass/statemachine"
)

// openTask is a task that may be claimed.
type openTask struct {
	wanted coordinator.Wanted
	place  kind.Place
}

// readMax limits the states that are read in one call.
const readMax = 100

// open returns the tasks of a type that could be claimed now, in the order of their turn.
func (l *Leases) open(ctx context.Context, taskType, owner string) ([]openTask, error) {
	kvs, revision, err := broker.Collect(ctx, l.broker, l.space.Tasks())
	if err != nil {
		return nil, err
	}
	kinds := specs.Kinds()
	tasks := mirror.NewTasks(l.space, mirror.Keep{Kind: func(spec []byte) any { return kinds.Of(spec) }, Skips: coordinator.Skips})
	tasks.Reset(&mirror.Snapshot{KVs: kvs, Revision: revision})
	now := time.Now()
	var found []openTask
	for t := range tasks.All() {
		k := kinds.OfTask(t)
		elsewhere := len(k.Class.Require) > 0 || k.Class.Node != "" && k.Class.Node != owner
		if k.Class.Type != taskType || elsewhere {
			continue
		}
		blockers := k.Blockers(t.ID)
		if a := k.Claimable(t, blockers, tasks, now); !a.Open || a.Skipped != "" {
			continue // tasks to be killed because of a failure are left to nodes
		}
		found = append(found, openTask{place: k.Place(t.ID, t.Created), wanted: coordinator.Wanted{
			Ref: coordinator.Ref{ID: t.ID, Created: t.Created, PropsOnly: !t.HasKey}, Modified: t.Modified(), Blockers: blockers, HandedOver: tasks.HasNote(t.ID),
		}})
	}
	slices.SortFunc(found, func(a, b openTask) int { return a.place.Compare(b.place) })
	return found, nil
}

// claim claims the first task that it can, and records that the claim is a lease: without that record nobody could end
// it.
func (l *Leases) claim(ctx context.Context, id broker.SessionID, owner string, found []openTask) (Lease, error) {
	began := time.Now()
	incarnation, err := uuid.NewV7()
	if err != nil {
		return Lease{}, err
	}
	coord, err := coordinator.New(l.broker, coordinator.Identity{
		Namespace: l.space.Root(), Node: owner, Session: id, Incarnation: incarnation.String(),
	})
	if err != nil {
		return Lease{}, err
	}
	for some := range slices.Chunk(found, readMax) {
		if some, err = l.ready(ctx, some); err != nil {
			return Lease{}, err
		}
		for _, f := range some {
			g, ok, err := claimReady(ctx, coord, f.wanted)
			if err != nil {
				return Lease{}, err
			}
			if !ok {
				continue
			}
			c := &claim{Granted: g, coord: coord, session: id, owner: owner, claimedAt: time.Now()}
			if c.spec, err = specs.Parse(g.Spec); err != nil {
				return Lease{}, err // cannot be: the claim is of what was read
			}
			if err := c.begin(ctx, incarnation.String()); err != nil {
				return Lease{}, err
			}
			l.trace(ctx, events.SpanClaim, began, c)(events.SpanEnd{})
			return Lease{ID: g.ID, Type: c.spec.Type, Owner: owner, Token: int64(g.Token), Props: g.Props}, nil
		}
	}
	return Lease{}, windlass.ErrEmpty
}

// ready returns those of some tasks whose stored state lets them run now.
func (l *Leases) ready(ctx context.Context, some []openTask) (ready []openTask, err error) {
	txns := make([]broker.Txn, len(some))
	for i, f := range some {
		txns[i] = broker.Txn{Then: []broker.Op{broker.Read(l.space.State(f.wanted.ID))}}
	}
	for i, r := range l.broker.Commit(ctx, txns...) {
		if r.Err != nil {
			return nil, r.Err
		}
		if r.Reads[0] == nil || mayRun(r.Reads[0].Value) {
			ready = append(ready, some[i])
		}
	}
	return ready, nil
}

// mayRun reports whether a task in a stored state may run now. Tasks that still sleep,
// are paused or cannot be read are left to nodes.
func mayRun(state []byte) bool {
	record, err := statemachine.Parse(state)
	switch {
	case err != nil:
		return false
	case record.State == statemachine.Sleeping:
		return !record.Until.After(time.Now())
	}
	return record.State == statemachine.Runnable || record.TypePaused // which it was, or nobody would ask
}

// claimReady claims one task. It returns false if that task is not available.
func claimReady(ctx context.Context, coord coordinator.Coordinator, w coordinator.Wanted) (g coordinator.Granted, ok bool, err error) {
	r := coord.Claim(ctx, []coordinator.Wanted{w})[0]
	for _, refusal := range []error{coordinator.ErrOwned, coordinator.ErrGone, coordinator.ErrBlocked, coordinator.ErrChanged} {
		if errors.Is(r.Err, refusal) {
			return g, false, nil
		}
	}
	if r.Err != nil {
		return g, false, r.Err
	}
	if r.Created != 0 && mayRun(r.State) && !r.Blocked {
		return r.Granted, true, nil
	}
	// It was deleted, put to sleep or began to wait since it was read.
	return g, false, attempts.End(ctx, coord, r.Ending(coordinator.Release)).Err
}
