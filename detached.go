package windlass

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
)

// Detached is a task that nobody's node holds: Client.DequeueDetached has claimed
// it for a time, and whoever knows its token may end it, from whatever process. It
// is for shell scripts and the like. A program that works on tasks has a node,
// whose Dequeue holds a task for as long as the program lives and tells it when
// the claim is lost; here nobody does. When the time is over the task is anyone's
// again, whatever its holder is doing: a write of its own elsewhere is safe only
// if it is fenced by the token. Its JSON is stable.
type Detached struct {
	ID string `json:"id"`
	// Type of the task.
	Type string `json:"type"`
	// Owner is who holds it, in the place of a node.
	Owner string `json:"owner"`
	// Token is the fencing token of the claim.
	Token int64 `json:"token"`
	// Until is when the claim ends, by the clock of the client that made it.
	Until time.Time       `json:"until"`
	Props json.RawMessage `json:"props"`
}

// detachable is a task that may be claimed.
type detachable struct {
	wanted coordinator.Wanted
	place  kind.Place
}

// detachedReadMax bounds the states that are read in one call.
const detachedReadMax = 100

// DequeueDetached claims the next task of a type, as Node.Dequeue takes it, in the
// name of an owner, which is spelled as a node and must not be one. The claim ends
// by itself after the lease, from session.TTLMin to session.TTLMax; zero means
// session.TTLDefault. If there is nothing to take it is ErrEmpty. A task that asks
// for labels, or for another node than the owner, is left to nodes.
func (c *Client) DequeueDetached(ctx context.Context, taskType, owner string, lease time.Duration) (Detached, error) {
	if err := c.checkDetached(ctx, taskType, owner, lease); err != nil {
		return Detached{}, err
	}
	found, err := c.detachable(ctx, taskType, owner)
	if err != nil {
		return Detached{}, fmt.Errorf("dequeue %q: %w", taskType, err)
	}
	if len(found) == 0 {
		return Detached{}, fmt.Errorf("type %q: %w", taskType, ErrEmpty)
	}
	began := time.Now()
	granted, err := c.broker.Grant(ctx, "", cmp.Or(lease, session.TTLDefault))
	if err != nil {
		return Detached{}, fmt.Errorf("dequeue %q: %w", taskType, err)
	}
	d, err := c.claimDetached(ctx, granted.ID, owner, found)
	if err != nil {
		// Also what may have been claimed goes with it.
		c.revokeDetached(ctx, granted.ID)
		return Detached{}, fmt.Errorf("dequeue %q: %w", taskType, err)
	}
	d.Until = began.Add(granted.TTL).UTC()
	return d, nil
}

func (c *Client) checkDetached(ctx context.Context, taskType, owner string, lease time.Duration) error {
	if taskType != "" {
		if err := checkType(taskType); err != nil {
			return err
		}
	}
	if err := keys.CheckNodeName(owner); err != nil {
		return badName(err)
	}
	if err := session.CheckTTL(lease); err != nil {
		return badInput("lease", lease, fmt.Sprintf("must be from %v to %v", session.TTLMin, session.TTLMax))
	}
	if err := c.checkLayout(ctx); err != nil {
		return fmt.Errorf("dequeue %q: %w", taskType, err)
	}
	switch _, err := c.broker.Get(ctx, c.space.NodeInfo(owner)); {
	case err == nil:
		return fmt.Errorf("owner %q: %w", owner, ErrNameTaken)
	case !errors.Is(err, broker.ErrNotFound):
		return fmt.Errorf("dequeue %q: %w", taskType, err)
	}
	return nil
}

// detachable are the tasks of a type that could be claimed now, the first one
// first.
func (c *Client) detachable(ctx context.Context, taskType, owner string) ([]detachable, error) {
	kvs, revision, err := broker.Collect(ctx, c.broker, c.space.Tasks())
	if err != nil {
		return nil, err
	}
	kinds := kind.New(readKind)
	tasks := mirror.NewTasks(c.space, mirror.Keep{Kind: func(spec []byte) any { return kinds.Of(spec) }, Skips: skips})
	tasks.Reset(&mirror.Snapshot{KVs: kvs, Revision: revision})
	now := time.Now()
	var found []detachable
	for t := range tasks.All() {
		k := kinds.OfTask(t)
		elsewhere := len(k.Spec.Require) > 0 || k.Spec.Node != "" && k.Spec.Node != owner
		if k.Spec.Type != taskType || elsewhere {
			continue
		}
		blockers, err := k.Blockers(t)
		if err != nil {
			continue
		}
		if a := k.Claimable(t, blockers, tasks, now); !a.Open || a.Skipped != "" {
			continue // what is to be killed because of a failure is the nodes' business
		}
		found = append(found, detachable{place: k.Place(t.ID, t.Created), wanted: coordinator.Wanted{
			ID: t.ID, PropsOnly: !t.HasKey, Created: t.Created, Modified: t.Modified(), Blockers: blockers, HandedOver: tasks.HasNote(t.ID),
		}})
	}
	slices.SortFunc(found, func(a, b detachable) int { return a.place.Compare(b.place) })
	return found, nil
}

// claimDetached claims the first task that can be had, and writes down that the
// claim is a detached one: without that nobody could end it.
func (c *Client) claimDetached(ctx context.Context, id broker.SessionID, owner string, found []detachable) (Detached, error) {
	began := time.Now()
	incarnation, err := uuid.NewV7()
	if err != nil {
		return Detached{}, err
	}
	coord, err := coordinator.New(c.broker, coordinator.Identity{
		Namespace: c.space.Root(), Node: owner, Session: id, Incarnation: incarnation.String(),
	})
	if err != nil {
		return Detached{}, err
	}
	for some := range slices.Chunk(found, detachedReadMax) {
		if some, err = c.ready(ctx, some); err != nil {
			return Detached{}, err
		}
		for _, f := range some {
			g, ok, err := claimReady(ctx, coord, f.wanted)
			if err != nil {
				return Detached{}, err
			}
			if !ok {
				continue
			}
			claim := &detachedClaim{Granted: g, coord: coord, session: id, owner: owner, claimedAt: time.Now()}
			if claim.spec, err = parseSpec(g.Spec); err != nil {
				return Detached{}, err // cannot be: the claim is of what was read
			}
			if err := claim.begin(ctx, incarnation.String()); err != nil {
				return Detached{}, err
			}
			c.traceDetached(ctx, SpanClaim, began, g, owner, claim.spec)(SpanEnd{})
			return Detached{ID: g.ID, Type: claim.spec.Type, Owner: owner, Token: int64(g.Token), Props: g.Props}, nil
		}
	}
	return Detached{}, ErrEmpty
}

// ready are those of some tasks whose stored state lets them run now.
func (c *Client) ready(ctx context.Context, some []detachable) (ready []detachable, err error) {
	txns := make([]broker.Txn, len(some))
	for i, f := range some {
		txns[i] = broker.Txn{Then: []broker.Op{broker.Read(c.space.State(f.wanted.ID))}}
	}
	for i, r := range c.broker.Commit(ctx, txns...) {
		if r.Err != nil {
			return nil, r.Err
		}
		if r.Reads[0] == nil || mayRun(r.Reads[0].Value) {
			ready = append(ready, some[i])
		}
	}
	return ready, nil
}

// mayRun tells whether a task in a stored state may run now. What sleeps, is
// paused, or cannot be read is the nodes' business.
func mayRun(state []byte) bool {
	record, err := statemachine.Parse(state)
	switch {
	case err != nil:
		return false
	case record.State == statemachine.Sleeping:
		return !record.Until.After(time.Now())
	}
	return record.State == statemachine.Runnable
}

// claimReady claims one task. It returns false if that one cannot be had.
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
	if r.Created != 0 && mayRun(r.State) {
		return r.Granted, true, nil
	}
	// It was deleted, or told to sleep, since it was looked at.
	return g, false, endPatiently(ctx, coord, r.Ending(coordinator.Release)).Err
}

// begin writes the record of a claim, then its history, which nothing depends on, and
// that a task that slept is runnable.
func (d *detachedClaim) begin(ctx context.Context, incarnation string) error {
	at := d.claimedAt.UTC()
	record := &coordinator.Record{ClaimedAt: at, Incarnation: incarnation, Reason: coordinator.ReasonDetached}
	for attempt := 1; ; attempt++ {
		err := d.coord.Note(ctx, []coordinator.Note{{ID: d.ID, Token: d.Token, Claimed: record}})[0]
		if err == nil {
			break
		}
		if !pauseAfter(ctx, err, attempt) {
			return err
		}
	}
	noteHistory(ctx, d.coord, d.Granted, statemachine.HistoryEntry{
		At: at, Event: statemachine.EventClaimed, Node: d.owner, Detail: coordinator.ReasonDetached,
	})
	var err error
	if d.record, err = statemachine.Parse(d.State); err != nil || d.record.State != statemachine.Sleeping {
		return err
	}
	d.record.State, d.record.Until = statemachine.Runnable, nil
	if err := d.save(ctx); err != nil {
		return err
	}
	d.note(ctx, statemachine.Event(statemachine.Runnable), "")
	return nil
}

// noteHistory adds to the history of a task, if that can be done.
func noteHistory(ctx context.Context, coord coordinator.Coordinator, g coordinator.Granted, e statemachine.HistoryEntry) {
	e.Token = int64(g.Token)
	coord.Note(ctx, []coordinator.Note{{ID: g.ID, Token: g.Token, History: []statemachine.HistoryEntry{e}}})
}

// pauseAfter waits for a moment before what has failed is tried again; false if it
// is not to be.
func pauseAfter(ctx context.Context, err error, attempt int) bool {
	if attempt >= attemptsMax || ctx.Err() != nil || !broker.MaybeApplied(err) && !broker.Temporary(err) {
		return false
	}
	pause.For(ctx, time.Duration(attempt)*attemptPause)
	return true
}

// revokeMax bounds how long a caller that is done waits for its session to go,
// which otherwise expires.
const revokeMax = 5 * time.Second

func (c *Client) revokeDetached(ctx context.Context, id broker.SessionID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeMax)
	defer cancel()
	_ = c.broker.Revoke(ctx, id) // it runs out by itself
}
