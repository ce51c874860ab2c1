package windlass

import (
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/outbox"
	"github.com/windlass-go/windlass/statemachine"
)

// journal is what a node writes into the histories of tasks.
type journal struct {
	outbox.Notes
	// node is its name, incarnation that of its session.
	node, incarnation string
}

// add queues what happened to a task that is held.
func (j *journal) add(r *run, at time.Time, entry statemachine.HistoryEntry) {
	entry.At, entry.Token, entry.Node = at.UTC(), r.claim.Token(), j.node
	j.Add(coordinator.Note{ID: r.claim.id, History: []statemachine.HistoryEntry{entry}})
}

// claimed notes that a claim was granted, and why it was made.
func (j *journal) claimed(r *run, reason string) {
	at := r.claim.claimedAt.UTC()
	j.Add(coordinator.Note{
		ID: r.claim.id, Token: r.claim.fencing, Fresh: r.stateRevision == 0,
		Claimed: &coordinator.Record{ClaimedAt: at, Incarnation: j.incarnation, Reason: reason},
		History: []statemachine.HistoryEntry{{
			At: at, Event: statemachine.EventClaimed, Token: r.claim.Token(), Node: j.node, Detail: reason,
		}},
	})
}

// stored notes the state that was stored.
func (j *journal) stored(r *run, now time.Time) {
	detail := ""
	switch {
	case r.record.State == statemachine.Sleeping && r.record.Until != nil:
		detail = "until " + r.record.Until.UTC().Format(time.RFC3339)
	case r.record.State == statemachine.Failed:
		detail = lastError(r.record.Errors)
	}
	j.add(r, now, statemachine.HistoryEntry{Event: statemachine.Event(r.record.State), Detail: detail})
}

// ended notes how a claim ended.
func (j *journal) ended(r *run, kind coordinator.Kind, now time.Time) {
	if kind == coordinator.Done {
		j.stored(r, now)
		return
	}
	e := statemachine.HistoryEntry{Event: statemachine.EventReleased}
	switch {
	case r.handTo != "":
		e.Detail, e.Interruption = "to move to node "+r.handTo, true
	case r.cause != nil:
		e.Detail, e.Interruption = r.cause.Error(), !errors.Is(r.cause, ErrDeleted)
	default:
		e.Detail = "by its handler, or before it had one"
	}
	j.add(r, now, e)
}

// requeued notes that a task whose run has ended was submitted again before.
func (j *journal) requeued(r *run, now time.Time) {
	j.add(r, now, statemachine.HistoryEntry{Event: statemachine.EventRequeued, Detail: "as it was queued while it ran"})
}

// commanded notes that a command was handled, or why it was not.
func (j *journal) commanded(r *run, o *order, err error, now time.Time) {
	detail := string(o.Message)
	if err != nil {
		detail += ": discarded: " + err.Error()
	}
	j.add(r, now, statemachine.HistoryEntry{Event: statemachine.EventCommand, Detail: detail})
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
