package windlass

import (
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
)

// note queues what happened to a task.
func (in *incarnation) note(id string, entry statemachine.HistoryEntry) {
	entry.Node = in.config.Name
	in.out.notes.Add(coordinator.Note{ID: id, History: []statemachine.HistoryEntry{entry}})
}

// noteClaim notes that a claim was granted, and why it was made.
func (in *incarnation) noteClaim(r *run, reason string) {
	at := r.claim.claimedAt.UTC()
	in.out.notes.Add(coordinator.Note{
		ID: r.claim.id, Token: r.claim.fencing, Fresh: r.stateRevision == 0,
		Claimed: &coordinator.Record{ClaimedAt: at, Incarnation: in.session.Incarnation(), Reason: reason},
		History: []statemachine.HistoryEntry{{
			At: at, Event: statemachine.EventClaimed, Token: r.claim.Token(), Node: in.config.Name, Detail: reason,
		}},
	})
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

// markRecorded marks the runs whose claims are about to be recorded, and takes off the notes
// what concerns claims that are over, or about to be.
func (in *incarnation) markRecorded(notes []coordinator.Note) {
	for i := range notes {
		n := &notes[i]
		if r := in.runs[n.ID]; r != nil && r.claim.fencing == n.Token && r.phase != phaseEnding {
			r.recorded = true
		} else {
			n.Claimed = nil
		}
	}
}

// noted takes the results of writing notes. What failed for now is queued again.
func (in *incarnation) noted(notes []coordinator.Note, errs []error) {
	now := time.Now()
	for i, err := range errs {
		switch {
		case err == nil:
		case !broker.Temporary(err) && !errors.Is(err, coordinator.ErrHistoryContended):
			in.events.Corrupt(in.node.space.History(notes[i].ID), fmt.Errorf("write the history: %w", err))
		case !in.closing:
			in.out.notes.Again(notes[i], now)
		}
	}
}
