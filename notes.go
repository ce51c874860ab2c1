package windlass

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
)

// notes are what is still to be written down about tasks: nothing waits for it,
// and it waits for everything else.
type notes struct {
	byID map[string]*coordinator.Note
	// order is that in which the tasks came.
	order []string
	// sent tells that a call is under way, sentAt when the last one began; retryAt
	// is when to try again after one that failed.
	sent            bool
	sentAt, retryAt time.Time
	// busyAt is when claims or endings have last come back.
	busyAt time.Time
}

const (
	// notesPause is the time between two calls, so that tasks that change all the
	// time do not double the requests.
	notesPause = 200 * time.Millisecond
	// notesQuiet is how long nothing must have come back: where tasks move from
	// node to node, each has something to do only now and then.
	notesQuiet = 100 * time.Millisecond
	// notesWaitMax bounds for how long notes wait for claims and endings.
	notesWaitMax = 10 * time.Second
	// notesRetry is when notes that failed at the broker are tried again.
	notesRetry = time.Second
)

// note queues what happened to a task.
func (in *incarnation) note(id string, entry statemachine.HistoryEntry) *coordinator.Note {
	entry.Node = in.config.Name
	ns := &in.notes
	n := ns.byID[id]
	if n == nil {
		if ns.byID == nil {
			ns.byID = map[string]*coordinator.Note{}
		}
		n = &coordinator.Note{ID: id}
		ns.byID[id] = n
		ns.order = append(ns.order, id)
	}
	n.History = append(n.History, entry)
	return n
}

// noteClaim notes that a claim was granted, and why it was made.
func (in *incarnation) noteClaim(r *run, reason string) {
	at := r.claim.claimedAt.UTC()
	n := in.note(r.claim.id, statemachine.HistoryEntry{
		At: at, Event: statemachine.EventClaimed, Token: r.claim.Token(), Detail: reason,
	})
	n.Token, n.Fresh = r.claim.fencing, n.Fresh || len(n.History) == 1 && r.stateRevision == 0
	n.Claimed = &coordinator.Record{ClaimedAt: at, Incarnation: in.session.Incarnation(), Reason: reason}
}

// noteState notes the state that was stored.
func (in *incarnation) noteState(r *run) {
	detail := ""
	switch {
	case r.record.State == statemachine.Sleeping && r.record.Until != nil:
		detail = "until " + r.record.Until.UTC().Format(time.RFC3339)
	case r.record.State == statemachine.Failed:
		detail = lastError(r.record.Errors)
	}
	in.note(r.claim.id, statemachine.HistoryEntry{
		At: time.Now().UTC(), Event: statemachine.Event(r.record.State), Token: r.claim.Token(), Detail: detail,
	})
}

// noteEnd notes how a claim ended.
func (in *incarnation) noteEnd(r *run, kind coordinator.Kind) {
	if kind == coordinator.Done {
		in.noteState(r)
		return
	}
	e := statemachine.HistoryEntry{At: time.Now().UTC(), Event: statemachine.EventReleased, Token: r.claim.Token()}
	switch {
	case r.handTo != "":
		e.Detail, e.Interruption = "to move to node "+r.handTo, true
	case r.cause != nil:
		e.Detail, e.Interruption = r.cause.Error(), !errors.Is(r.cause, ErrDeleted)
	default:
		e.Detail = "by its handler, or before it had one"
	}
	in.note(r.claim.id, e)
}

// noteRequeued notes that a task whose run has ended was submitted again before.
func (in *incarnation) noteRequeued(r *run) {
	in.note(r.claim.id, statemachine.HistoryEntry{
		At: time.Now().UTC(), Event: statemachine.EventRequeued, Token: r.claim.Token(), Detail: "as it was queued while it ran",
	})
}

// pending tells whether there is anything to write.
func (ns *notes) pending() bool { return len(ns.order) > 0 && !ns.sent }

// since is when the first of what is queued happened.
func (ns *notes) since() time.Time { return ns.byID[ns.order[0]].History[0].At }

// notesDue is when to write what is queued: soon when there is nothing else to
// do, for this node or, with what is left to claim, for another one. A node that
// always has something else to do goes on with what is overdue.
func (in *incarnation) notesDue(now time.Time) time.Time {
	at := now
	switch {
	case in.closing:
	case len(in.inFlight)+len(in.endQueue)+in.claimCalls+in.endCalls+in.planning.foreign > 0:
		at = in.notes.since().Add(notesWaitMax)
	default:
		at = later(in.notes.sentAt.Add(notesPause), in.notes.busyAt.Add(notesQuiet))
	}
	return later(at, in.notes.retryAt)
}

// notesStep writes what is queued when it is time.
func (in *incarnation) notesStep(ctx context.Context, now time.Time) {
	ns := &in.notes
	if !ns.pending() || in.lost || in.notesDue(now).After(now) {
		return
	}
	batch := make([]coordinator.Note, 0, min(len(ns.order), claimBatchMax))
	for _, id := range ns.order[:cap(batch)] {
		n := ns.byID[id]
		delete(ns.byID, id)
		if r := in.runs[id]; r != nil && r.claim.fencing == n.Token && r.phase != phaseEnding {
			r.recorded = true
		} else {
			n.Claimed = nil // that claim is over, or about to be
		}
		batch = append(batch, *n)
	}
	ns.order = ns.order[cap(batch):]
	if len(ns.order) == 0 {
		ns.order, ns.byID = nil, nil // there may have been very many
	}
	ns.sent, ns.sentAt = true, now
	in.background(func() func() {
		errs := in.coord.Note(ctx, batch)
		return func() { in.noted(batch, errs) }
	})
}

// noted takes the results of writing notes. What failed for now is queued again,
// in front of what came since.
func (in *incarnation) noted(batch []coordinator.Note, errs []error) {
	in.notes.sent = false
	now := time.Now()
	for i, err := range errs {
		n := &batch[i]
		switch {
		case err == nil:
		case !broker.Temporary(err) && !errors.Is(err, coordinator.ErrHistoryContended):
			in.events.Corrupt(in.node.space.History(n.ID), fmt.Errorf("write the history: %w", err))
		case !in.closing:
			in.notes.retryAt = now.Add(notesRetry)
			in.notes.again(n)
		}
	}
}

// again queues a note that was not written, in front of what came since.
func (ns *notes) again(n *coordinator.Note) {
	if ns.byID == nil {
		ns.byID = map[string]*coordinator.Note{}
	}
	since := ns.byID[n.ID]
	if since == nil {
		ns.order = append(ns.order, n.ID)
	} else {
		n.History, n.Fresh = append(n.History, since.History...), false
		if since.Claimed != nil {
			n.Claimed, n.Token = since.Claimed, since.Token
		}
	}
	ns.byID[n.ID] = n
}

// handDown is what of the notes concerns the next incarnation of the node: the
// claims are over, and what happened has happened.
func (ns *notes) handDown() notes {
	for _, n := range ns.byID {
		n.Claimed = nil
	}
	return notes{byID: ns.byID, order: ns.order}
}
