package windlass

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
)

// Detached is a task that no node holds: Client.DequeueDetached has claimed it for a
// time, and any process that knows its token may end it. It is meant for shell scripts
// and the like.
//
// A program that works on tasks should have a node: Node.Dequeue holds a task for as
// long as the program lives and tells it when the claim is lost. A detached claim does
// neither. When its time is over, any node may claim the task, whatever the holder is
// doing; the holder's own writes elsewhere are safe only if they are fenced by the
// token. The JSON of Detached is stable.
type Detached struct {
	ID string `json:"id"`
	// Type of the task.
	Type string `json:"type"`
	// Owner is the holder, in place of a node.
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

// detachedReadMax limits the states that are read in one call.
const detachedReadMax = 100

// DequeueDetached claims the next task of a type, in the order of Node.Dequeue, for an
// owner. The owner's name follows the rules for node names and must not be that of a
// node. The claim ends by itself after the lease, from session.TTLMin to
// session.TTLMax; zero means session.TTLDefault. DequeueDetached returns ErrEmpty if
// there is nothing to take, or the type is paused. Tasks that require labels, or are pinned to a node other
// than the owner, are left to nodes.
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
	granted, err := attempts.Grant(ctx, c.broker, cmp.Or(lease, session.TTLDefault))
	if err != nil {
		return Detached{}, fmt.Errorf("dequeue %q: %w", taskType, err)
	}
	d, err := c.claimDetached(ctx, granted.ID, owner, found)
	if err != nil {
		// The session's end also ends a claim that may have been made.
		attempts.Revoke(ctx, c.broker, granted.ID)
		return Detached{}, fmt.Errorf("dequeue %q: %w", taskType, err)
	}
	d.Until = began.Add(granted.TTL).UTC()
	return d, nil
}

func (c *Client) checkDetached(ctx context.Context, taskType, owner string, lease time.Duration) error {
	if taskType != "" {
		if err := keys.CheckType(taskType); err != nil {
			return err
		}
	}
	if err := keys.CheckNodeName(owner); err != nil {
		return err
	}
	if err := session.CheckTTL(lease); err != nil {
		return badInput("lease", lease, fmt.Sprintf("must be from %v to %v", session.TTLMin, session.TTLMax))
	}
	if err := c.checkLayout(ctx); err != nil {
		return fmt.Errorf("dequeue %q: %w", taskType, err)
	}
	r, err := broker.CommitOne(ctx, c.broker, broker.Txn{Then: []broker.Op{
		broker.Read(c.space.NodeInfo(owner)), broker.Read(c.space.TypePause(taskType)),
	}})
	switch {
	case err != nil:
		return fmt.Errorf("dequeue %q: %w", taskType, err)
	case r.Reads[0] != nil:
		return fmt.Errorf("owner %q: %w", owner, ErrNameTaken)
	case r.Reads[1] != nil:
		return fmt.Errorf("%w: type %q is paused", ErrEmpty, taskType)
	}
	return nil
}

// detachable returns the tasks of a type that could be claimed now, in the order of
// their turn.
func (c *Client) detachable(ctx context.Context, taskType, owner string) ([]detachable, error) {
	kvs, revision, err := broker.Collect(ctx, c.broker, c.space.Tasks())
	if err != nil {
		return nil, err
	}
	kinds := kind.New(readKind)
	tasks := mirror.NewTasks(c.space, mirror.Keep{Kind: func(spec []byte) any { return kinds.Of(spec) }, Skips: coordinator.Skips})
	tasks.Reset(&mirror.Snapshot{KVs: kvs, Revision: revision})
	now := time.Now()
	var found []detachable
	for t := range tasks.All() {
		k := kinds.OfTask(t)
		elsewhere := len(k.Spec.Require) > 0 || k.Spec.Node != "" && k.Spec.Node != owner
		if k.Spec.Type != taskType || elsewhere {
			continue
		}
		blockers := k.Blockers(t.ID)
		if a := k.Claimable(t, blockers, tasks, now); !a.Open || a.Skipped != "" {
			continue // tasks to be killed because of a failure are left to nodes
		}
		found = append(found, detachable{place: k.Place(t.ID, t.Created), wanted: coordinator.Wanted{
			ID: t.ID, PropsOnly: !t.HasKey, Created: t.Created, Modified: t.Modified(), Blockers: blockers, HandedOver: tasks.HasNote(t.ID),
		}})
	}
	slices.SortFunc(found, func(a, b detachable) int { return a.place.Compare(b.place) })
	return found, nil
}

// claimDetached claims the first task that it can, and records that the claim is a
// detached one: without that record nobody could end it.
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
			c.traceDetached(ctx, events.SpanClaim, began, g, owner, claim.spec)(events.SpanEnd{})
			return Detached{ID: g.ID, Type: claim.spec.Type, Owner: owner, Token: int64(g.Token), Props: g.Props}, nil
		}
	}
	return Detached{}, ErrEmpty
}

// ready returns those of some tasks whose stored state lets them run now.
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
	return g, false, endPatiently(ctx, coord, r.Ending(coordinator.Release)).Err
}

// begin writes the record of a claim. It then writes the history, which nothing depends
// on, and, for a task that slept or was paused, that it is runnable.
func (d *detachedClaim) begin(ctx context.Context, incarnation string) error {
	at := d.claimedAt.UTC()
	record := &coordinator.Record{ClaimedAt: at, Incarnation: incarnation, Reason: coordinator.ReasonDetached}
	for attempt := 1; ; attempt++ {
		err := d.coord.Audit(ctx, []coordinator.AuditRecord{{ID: d.ID, Token: d.Token, Claimed: record}})[0]
		if err == nil {
			break
		}
		if !attempts.PauseAfter(ctx, err, attempt) {
			return err
		}
	}
	noteHistory(ctx, d.coord, d.Granted, statemachine.HistoryEntry{
		At: at, Event: statemachine.EventClaimed, Node: d.owner, Detail: coordinator.ReasonDetached,
	})
	var err error
	if d.record, err = statemachine.Parse(d.State); err != nil || d.record.State == statemachine.Runnable {
		return err
	}
	now := time.Now()
	d.record.State, d.record.Until, d.record.TypePaused = statemachine.Runnable, nil, false
	if err := d.save(ctx); err != nil {
		return err
	}
	d.note(ctx, now, statemachine.Event(statemachine.Runnable), "")
	return nil
}

// noteHistory adds an entry to the history of a task, if it can.
func noteHistory(ctx context.Context, coord coordinator.Coordinator, g coordinator.Granted, e statemachine.HistoryEntry) {
	e.Token = int64(g.Token)
	coord.Audit(ctx, []coordinator.AuditRecord{{ID: g.ID, Token: g.Token, History: []statemachine.HistoryEntry{e}}})
}

// detachedClaim is the claim of a Detached that is about to end.
type detachedClaim struct {
	coordinator.Granted
	coord   coordinator.Coordinator
	session broker.SessionID
	// owner is empty if nobody works on the task, and the claim only carries out a command.
	owner     string
	claimedAt time.Time
	spec      Spec
	// record is the stored state record, to be changed.
	record statemachine.Record
}

// CompleteDetached ends a detached task for good, by its ID and the token of the claim.
// The result is any JSON of at most ResultBytesMax, see Claim.SetResult, or nil. It returns ErrFenced if the
// claim is no longer held, ErrWorking if a node holds it, and ErrNotFound if nothing is
// known of the task.
func (c *Client) CompleteDetached(ctx context.Context, id string, token int64, result json.RawMessage) error {
	if err := checkResult(result, &Spec{}, nil); err != nil {
		return err
	}
	return c.endDetached(ctx, "complete", id, token, func(d *detachedClaim) error {
		if err := checkResult(result, &d.spec, d.Props); err != nil {
			return err
		}
		d.record.State, d.record.Until, d.record.Result = statemachine.Completed, nil, result
		return d.done(ctx)
	})
}

// FailDetached reports that a detached task failed. It sleeps and runs again, or fails
// for good, as its Spec.Retry decides; with Permanent(err) it fails at once. The error
// handlers of nodes are not called. A nil error counts as an unknown error. The errors
// are those of CompleteDetached.
func (c *Client) FailDetached(ctx context.Context, id string, token int64, err error) error {
	if err == nil {
		err = errors.New("unknown error")
	}
	return c.endDetached(ctx, "fail", id, token, func(d *detachedClaim) error {
		if d.fault(err) {
			return d.done(ctx)
		}
		// While it sleeps a node holds it, like any sleeping task; so the
		// claim is given back once that is stored.
		now := time.Now()
		if err := d.save(ctx); err != nil {
			return err
		}
		d.note(ctx, now, statemachine.Event(statemachine.Sleeping), sleeps(*d.record.Until, err.Error()))
		_ = d.giveBack(ctx) // the claim ends with its session anyway, and a second failure would count as a second error
		return nil
	})
}

// ReleaseDetached gives a detached task back; others may take it at once. The errors
// are those of CompleteDetached.
func (c *Client) ReleaseDetached(ctx context.Context, id string, token int64) error {
	return c.endDetached(ctx, release, id, token, func(d *detachedClaim) error { return d.giveBack(ctx) })
}

// release is the ending that leaves the task as it is.
const release = "release"

// endDetached finds a claim, ends it with end, and ends its session.
func (c *Client) endDetached(ctx context.Context, what, id string, token int64, end func(*detachedClaim) error) error {
	if err := keys.CheckTaskID(id); err != nil {
		return err
	}
	err := c.checkLayout(ctx)
	var d *detachedClaim
	if err == nil {
		d, err = c.heldDetached(ctx, id, broker.Revision(token))
	}
	if err == nil {
		ended := func(events.SpanEnd) {}
		if what != release {
			ended = c.traceDetached(ctx, events.SpanComplete, time.Now(), d.Granted, d.owner, d.spec)
		}
		err = end(d)
		ended(events.SpanEnd{Outcome: events.Outcome(d.record.State), Err: err})
	}
	switch {
	case errors.Is(err, coordinator.ErrGone): // it was deleted, and nobody needs the claim
		err = ErrFenced
	case errors.Is(err, coordinator.ErrStateChanged): // somebody ends it at the same time
		return fmt.Errorf("%s task %q: %w", what, id, ErrFenced)
	case err != nil:
		return fmt.Errorf("%s task %q: %w", what, id, err)
	}
	attempts.Revoke(ctx, c.broker, d.session)
	if err != nil {
		return fmt.Errorf("%s task %q: %w", what, id, err)
	}
	return nil
}

// heldDetached reads the claim of a token if it is still held and is not a node's.
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

// read reads the claimed task.
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

// fault records an error and decides what follows. It returns true if the task has
// failed for good.
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

// ending encodes the record into an ending.
func (d *detachedClaim) ending(kind coordinator.Kind) coordinator.Ending {
	now, claimedAt := time.Now().UTC(), d.claimedAt.UTC()
	r := &d.record
	r.Type, r.Priority, r.Digest, r.SubmittedAt = d.spec.Type, d.spec.Priority, d.spec.Digest, nil
	if at := d.spec.SubmittedAt; !at.IsZero() {
		r.SubmittedAt = &at
	}
	if kind == coordinator.Done {
		input(r, d.spec, d.Props)
	}
	r.Token, r.ChangedAt = int64(d.Token), &now
	if d.owner != "" {
		r.Node, r.ClaimedAt = d.owner, &claimedAt
	}
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

// final returns the ending with the state of the record.
func (d *detachedClaim) final() coordinator.Ending {
	e := d.ending(coordinator.Done)
	e.Forget = d.record.State == statemachine.Completed
	e.Mark = failureMark(d.record.State, d.spec.OnFailure)
	return e
}

// done ends the task in the state of the record.
func (d *detachedClaim) done(ctx context.Context) error {
	e := d.final()
	ended := endPatiently(ctx, d.coord, e)
	switch {
	case ended.Err != nil:
		return ended.Err
	case ended.Requeued:
		d.note(ctx, e.At, statemachine.EventRequeued, "as it was queued while it ran")
	default:
		d.note(ctx, e.At, statemachine.Event(d.record.State), "")
	}
	return nil
}

// giveBack releases the claim.
func (d *detachedClaim) giveBack(ctx context.Context) error {
	e := d.Ending(coordinator.Release)
	ended := endPatiently(ctx, d.coord, e)
	if ended.Err == nil {
		d.note(ctx, e.At, statemachine.EventReleased, "by its holder")
	}
	return ended.Err
}

func (d *detachedClaim) note(ctx context.Context, at time.Time, event statemachine.Event, detail string) {
	if event == statemachine.Event(statemachine.Failed) {
		detail = lastError(d.record.Errors)
	}
	noteHistory(ctx, d.coord, d.Granted, statemachine.HistoryEntry{
		At: at.UTC(), Event: event, Node: d.owner, Detail: detail,
	})
}

// endPatiently ends a claim, and retries while the outcome is unknown or the error is
// temporary.
func endPatiently(ctx context.Context, coord coordinator.Coordinator, e coordinator.Ending) coordinator.Ended {
	return endAll(ctx, coord, []coordinator.Ending{e})[0]
}

// endAll ends claims, and retries those whose outcome is unknown or whose error is temporary.
func endAll(ctx context.Context, coord coordinator.Coordinator, endings []coordinator.Ending) []coordinator.Ended {
	results := make([]coordinator.Ended, len(endings))
	open := make([]int, len(endings)) // indexes
	for i := range open {
		open[i] = i
	}
	for attempt := 1; len(open) > 0; attempt++ {
		some := make([]coordinator.Ending, len(open))
		for n, i := range open {
			some[n] = endings[i]
		}
		var again []int
		for n, ended := range coord.End(ctx, some) {
			i := open[n]
			if results[i] = ended; ended.Err != nil && (broker.MaybeApplied(ended.Err) || broker.Temporary(ended.Err)) {
				endings[i].Again = endings[i].Again || broker.MaybeApplied(ended.Err)
				again = append(again, i)
			}
		}
		if open = again; len(open) > 0 && !attempts.PauseAfter(ctx, results[open[0]].Err, attempt) {
			break
		}
	}
	return results
}
