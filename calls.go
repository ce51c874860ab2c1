package windlass

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/internal/schedule"
	"github.com/windlass-go/windlass/statemachine"
)

// claimed takes the results of a call to claim or adopt.
func (in *incarnation) claimed(wanted []coordinator.Wanted, results []coordinator.Result, adopted bool) {
	now := time.Now()
	in.out.notes.BusyAt = now
	for i, result := range results {
		id := wanted[i].ID
		err := result.Err
		c := in.board.Landed(id, answerOf(err))
		if err == nil && in.isOver(result.Granted) {
			err = fmt.Errorf("%w: the owner key of task %q is gone", ErrLost, id)
			in.events.Fenced(id, int64(result.Token), err)
		}
		switch {
		case in.runs[id] != nil: // cannot be: nothing is claimed or asked about that runs
		case err != nil:
			in.claimRefused(wanted[i], err, now, c)
		case adopted:
			in.events.Adopted(id, int64(result.Token))
			in.begin(result.Granted, &prospect{
				task: in.makeTask(id, result.Props), adopted: true, reason: "a claim whose outcome had been unknown turned up",
			})
		default:
			in.begin(result.Granted, c.App.(*prospect))
		}
	}
	in.giving.Landed()
}

// isOver tells of a claim whose grant is only now known that it has ended since:
// the mirror is ahead of the answer and shows that it is gone.
func (in *incarnation) isOver(g coordinator.Granted) bool {
	t := in.tasks.Remains(g.ID)
	held := t != nil && t.Session == in.session.ID() && t.Token == g.Token
	return in.tombs[g.ID].token == g.Token || (in.tasks.Revision() >= g.Token && !held)
}

// claimRefused arranges for another look where one is worth it. was is what was to be
// claimed, nil if an owner was asked about.
func (in *incarnation) claimRefused(wanted coordinator.Wanted, err error, now time.Time, was *schedule.Candidate) {
	id := wanted.ID
	switch {
	case errors.Is(err, coordinator.ErrOwned), errors.Is(err, coordinator.ErrGone),
		errors.Is(err, coordinator.ErrBlocked), errors.Is(err, coordinator.ErrChanged), errors.Is(err, ErrLost):
	default:
		in.events.BrokerTrouble(fmt.Errorf("claim %q: %w", id, err))
	}
	t := in.tasks.Get(id)
	if t == nil || t.Owned() {
		if in.checkClaim(id); was == nil && in.out.adopts.Has(id) {
			in.out.adopts.Put(id, wanted, now.Add(retryClaim))
		}
		return
	}
	in.board.Refused(t, was, answerOf(err), now)
}

// ended takes the results of a call to end.
func (in *incarnation) ended(endings []coordinator.Ending, results []coordinator.Ended) {
	now := time.Now()
	in.out.notes.BusyAt = now
	for i, result := range results {
		run, err := in.runs[endings[i].ID], result.Err
		if run == nil || run.claim.token() != endings[i].Token {
			continue
		}
		switch {
		case errors.Is(err, coordinator.ErrFenced) || errors.Is(err, broker.ErrSessionExpired):
			in.drop(run, err)
		case errors.Is(err, coordinator.ErrGone):
			in.abandon(run)
		case errors.Is(err, coordinator.ErrSuperseded):
			in.superseded(run)
		case errors.Is(err, coordinator.ErrStateChanged):
			// Someone wrote it by hand, or an older save of ours came late: the
			// owner's word is the last.
			run.stateRevision = result.StateRevision
			run.ending.Replaces = result.StateRevision
			in.queueEnding(run)
		case broker.Temporary(err):
			in.endAgain(run, err)
		case err != nil:
			in.endRefused(run, err)
		case endings[i].Kind == coordinator.Save:
			run.stateRevision = result.StateRevision
			in.orderDone(run)
			in.out.notes.stored(run, now)
			run.since = in.node.momentOf(now)
			in.saved(run)
		default:
			in.orderDone(run)
			if in.out.notes.ended(run, endings[i].Kind, now); result.Requeued {
				in.out.notes.requeued(run, now)
			}
			in.reportEnd(run, run.outcome)
			if endings[i].Kind == coordinator.Done {
				in.fleet.Ended(run.class().Type, in.node.lasted(run, now), now)
			}
			in.forget(run.claim.ID())
		}
	}
}

// lasted is how long a task took that is over now: until its handler returned. How long it
// took to store that says how busy the fleet is, and not how long such tasks take.
func (n *Node) lasted(r *run, now time.Time) time.Duration {
	if r.returned != 0 {
		now = n.timeOf(r.returned)
	}
	return now.Sub(r.claim.claimedAt)
}

// queueEnding has what becomes of a run stored, as soon as the broker takes it.
func (in *incarnation) queueEnding(r *run) {
	in.out.endings.Put(r.claim.id, *r.ending, time.Time{})
}

// endAgain queues an ending again that the broker did not answer or could not
// take now. It is repeated for as long as the incarnation lasts.
func (in *incarnation) endAgain(r *run, err error) {
	r.ending.Again = r.ending.Again || broker.MaybeApplied(err)
	in.queueEnding(r)
	if now := time.Now(); !in.out.endings.Paused(now) {
		in.out.endings.Pause(now.Add(retryEnd))
		in.events.BrokerTrouble(fmt.Errorf("store what became of %q: %w", r.claim.ID(), err))
	}
}

// endRefused handles a state that the broker will never take, for example
// because it is too large: the claim is given back without it.
func (in *incarnation) endRefused(r *run, err error) {
	in.events.Corrupt(in.node.space.State(r.claim.ID()), fmt.Errorf("store state: %w", err))
	if r.ending.Kind == coordinator.Release {
		in.endAgain(r, err) // or the claim would be held for nobody
		return
	}
	in.release(r)
}

// saved continues a run whose state is stored now.
func (in *incarnation) saved(r *run) {
	switch {
	case in.lost || errors.Is(r.cause, ErrLost):
		in.drop(r, r.cause)
	case errors.Is(r.cause, ErrDeleted):
		in.abandon(r)
	case r.cause != nil:
		in.release(r)
	case r.record.State != statemachine.Runnable && r.face.started != 0:
		in.reportEnd(r, map[statemachine.State]Outcome{statemachine.Sleeping: OutcomeSleeping, statemachine.Paused: OutcomePaused}[r.record.State])
		in.node.mu.Lock()
		r.face.started, r.face.stopped = 0, 0
		in.node.mu.Unlock()
		in.resume(r)
	default:
		in.resume(r)
	}
}

// patientGet is Get of a broker that may be away: it tries again until ctx is done.
func patientGet(ctx context.Context, b broker.Broker, key string) (broker.KV, error) {
	for {
		kv, err := b.Get(ctx, key)
		if !broker.Temporary(err) || !pause.For(ctx, retryEnd) {
			return kv, err
		}
	}
}
