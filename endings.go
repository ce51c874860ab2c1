package windlass

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/journal"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/statemachine"
)

// ended handles the results of a call to end.
func (in *incarnation) ended(endings []coordinator.Ending, results []coordinator.Ended) {
	now := time.Now()
	in.out.audit.BusyAt = now
	for i, result := range results {
		run, err, at := in.runs[endings[i].ID], result.Err, endings[i].At
		if run == nil || run.claim.held.Token != endings[i].Token {
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
			// Someone wrote it by hand, or an older save of ours was applied late: what
			// the owner writes replaces it.
			run.stateRevision = result.StateRevision
			run.ending.Replaces = result.StateRevision
			in.queueEnding(run)
		case broker.Temporary(err):
			in.endAgain(run, err)
		case err != nil:
			in.endRefused(run, err)
		case endings[i].Kind == coordinator.Save:
			run.stateRevision = result.StateRevision
			in.commandDone(run)
			run.recordState(in.out.audit, at)
			run.since = in.node.momentOf(at)
			in.saved(run)
		default:
			in.commandDone(run)
			if endings[i].Kind == coordinator.Done {
				run.recordState(in.out.audit, at)
			} else {
				in.out.audit.Released(&run.claim.held, run.cause, run.handTo, run.published.started != 0, at)
			}
			if result.Requeued {
				in.out.audit.Requeued(&run.claim.held, now)
			}
			in.reportEnd(run, run.outcome)
			if endings[i].Kind == coordinator.Done {
				in.fleet.Ended(run.class().Type, in.node.lasted(run, now), now)
			}
			in.forget(run.claim.ID())
		}
	}
}

// recordState records in the history of a task the state that was stored, from a time on.
func (r *run) recordState(j *journal.Journal, at time.Time) {
	j.Stored(&r.claim.held, &r.record, r.faulted, at)
	r.faulted = false
}

// lasted returns how long a task took that has ended: until its handler returned. The
// time to store that shows how busy the cluster is, and not how long such tasks take.
func (n *Node) lasted(r *run, now time.Time) time.Duration {
	if r.returned != 0 {
		now = n.timeOf(r.returned)
	}
	return now.Sub(r.claim.held.At)
}

// queueEnding queues the ending of a run, to be sent as soon as the broker takes it.
func (in *incarnation) queueEnding(r *run) {
	in.out.endings.Put(r.claim.held.ID, *r.ending, time.Time{})
}

// endAgain queues an ending again that the broker did not answer or could not apply
// now. It is repeated for as long as the incarnation lasts.
func (in *incarnation) endAgain(r *run, err error) {
	r.ending.Again = r.ending.Again || broker.MaybeApplied(err)
	in.queueEnding(r)
	if now := time.Now(); !in.out.endings.Paused(now) {
		in.out.endings.Pause(now.Add(retryEnd))
		in.events.BrokerTrouble(fmt.Errorf("store what became of %q: %w", r.claim.ID(), err))
	}
}

// endRefused handles a state that the broker will never accept, for example because it
// is too large: the claim is given back without it.
func (in *incarnation) endRefused(r *run, err error) {
	in.events.Corrupt(in.node.space.State(r.claim.ID()), fmt.Errorf("store state: %w", err))
	if r.ending.Kind == coordinator.Release {
		in.endAgain(r, err) // or the claim would be held for nobody
		return
	}
	in.release(r)
}

// saved continues a run whose state is now stored.
func (in *incarnation) saved(r *run) {
	switch {
	case in.stage == stageLost || errors.Is(r.cause, ErrLost):
		in.drop(r, r.cause)
	case errors.Is(r.cause, ErrDeleted):
		in.abandon(r)
	case r.cause != nil:
		in.release(r)
	case r.record.State != statemachine.Runnable && r.published.started != 0:
		in.reportEnd(r, outcomes[r.record.State])
		in.node.mu.Lock()
		r.published.started, r.published.stopped = 0, 0
		in.node.mu.Unlock()
		in.resume(r)
	default:
		in.resume(r)
	}
}

// patientGet is Get for a broker that may be unreachable: it retries until ctx is done.
func patientGet(ctx context.Context, b broker.Broker, key string) (broker.KV, error) {
	for {
		kv, err := b.Get(ctx, key)
		if !broker.Temporary(err) || !pause.For(ctx, retryEnd) {
			return kv, err
		}
	}
}
