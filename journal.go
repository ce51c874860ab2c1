package windlass

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/life"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/outbox"
	"github.com/windlass-go/windlass/statemachine"
)

// journal is what a node writes into the histories of tasks.
type journal struct {
	outbox.AuditQueue
	// node is the name of the node, incarnation that of its session.
	node, incarnation string
}

// add queues an entry about a held task.
func (j *journal) add(r *run, at time.Time, entry statemachine.HistoryEntry) {
	entry.At, entry.Token, entry.Node = at.UTC(), r.claim.Token(), j.node
	j.Add(coordinator.AuditRecord{ID: r.claim.ref.ID, History: []statemachine.HistoryEntry{entry}})
}

// claimed records that a claim was granted, and why it was made. lost are claims before that ended
// with their nodes: those may not have had the time to record them.
func (j *journal) claimed(r *run, p *prospect, lost []mirror.End) {
	at, reason, detail := r.claim.claimedAt.UTC(), p.reason, p.reason
	switch by := r.claim.origin.by; {
	case by == "":
	case reason == reasonUpdated:
		detail += ", by " + by
	case r.stateRevision == 0: // it may not have run yet
		detail += ", submitted by " + by
	}
	var history []statemachine.HistoryEntry
	for _, e := range append(lost, p.ended) {
		if e.Token != 0 {
			history = append(history, statemachine.HistoryEntry{
				At: e.At.UTC(), Event: statemachine.EventLost, Token: int64(e.Token), Node: e.Node, Detail: crash{e.Process}.Error(), Interruption: true, Unseen: e.Late,
			})
		}
	}
	j.Add(coordinator.AuditRecord{
		ID: r.claim.ref.ID, Token: r.claim.ref.Token, Fresh: r.stateRevision == 0,
		Claimed: &coordinator.Record{ClaimedAt: at, Incarnation: j.incarnation, Reason: reason},
		History: append(history, statemachine.HistoryEntry{
			At: at, Event: statemachine.EventClaimed, Token: r.claim.Token(), Node: j.node, Detail: detail,
		}),
	})
}

// loopEvery is the least time between two entries that what a handler runs keeps ending.
const loopEvery = time.Hour

// restarted records how often a handler has started again what it runs. The history has only
// that a loop begins: its restarts would push out what happened.
func (j *journal) restarted(r *run, restarts statemachine.Restarts) {
	r.claim.restarted = true
	record := j.record(r, &restarts)
	if restarts.InARow == statemachine.RestartsMany && restarts.LastAt.Sub(r.claim.loopedAt) >= loopEvery {
		r.claim.loopedAt = restarts.LastAt
		record.History = []statemachine.HistoryEntry{{
			At: restarts.LastAt.UTC(), Event: statemachine.EventLooping, Token: r.claim.Token(), Node: j.node,
			Detail: fmt.Sprintf("restart %d in a row: %s", restarts.InARow, restarts.LastEnd),
		}}
	}
	j.Add(record)
}

// returned removes the restarts of a handler that has returned: a claim outlives its handler
// while the task is paused or sleeps, and the next handler may have nothing to start again.
func (j *journal) returned(r *run) {
	if r.claim.restarted {
		r.claim.restarted = false
		j.Add(j.record(r, nil))
	}
}

// record returns a record of a claim with its restarts, nil for none.
func (j *journal) record(r *run, restarts *statemachine.Restarts) coordinator.AuditRecord {
	return coordinator.AuditRecord{
		ID: r.claim.ref.ID, Token: r.claim.ref.Token,
		Claimed: &coordinator.Record{ClaimedAt: r.claim.claimedAt.UTC(), Incarnation: j.incarnation, Reason: r.claim.reason, Restarts: restarts},
	}
}

// stored records the state that was stored, from a time on, and the error that led to it.
func (j *journal) stored(r *run, at time.Time) {
	detail, fault := "", ""
	if r.faulted {
		r.faulted, fault = false, statemachine.LastError(r.record.Errors)
	}
	switch {
	case r.record.State == statemachine.Sleeping && r.record.Until != nil:
		detail = statemachine.SleepDetail(*r.record.Until, fault)
	case fault != "" && !r.record.State.Terminal():
		detail = statemachine.DetailAfterError + fault
	case r.record.State == statemachine.Failed:
		detail = statemachine.LastError(r.record.Errors)
	case r.record.State == statemachine.Paused && r.record.TypePaused:
		detail = "its type is paused"
	}
	j.add(r, at, statemachine.HistoryEntry{Event: statemachine.Event(r.record.State), Detail: detail})
}

// lost records that a claim had ended before this node could end it, and when its handler did.
func (j *journal) lost(r *run, cause error, at time.Time) {
	j.add(r, at, statemachine.HistoryEntry{Event: statemachine.EventLost, Detail: cause.Error(), Interruption: r.published.started != 0})
}

// ended records how a claim ended.
func (j *journal) ended(r *run, kind coordinator.Kind, at time.Time) {
	if kind == coordinator.Done {
		j.stored(r, at)
		return
	}
	e := statemachine.HistoryEntry{Event: statemachine.EventReleased}
	switch crashed := (crash{}); {
	case errors.As(r.cause, &crashed):
		j.lost(r, r.cause, at)
		return
	case r.handTo == j.node:
		e.Detail = "to run again here: " + r.cause.Error() // somebody wanted it
	case r.handTo != "":
		e.Detail, e.Interruption = "to move to node "+r.handTo, r.published.started != 0 // or it slept, or was paused
	case r.cause != nil:
		e.Detail, e.Interruption = r.cause.Error(), !slices.ContainsFunc([]error{ErrDeleted, ErrUpdated, ErrTypePaused}, func(wanted error) bool { return errors.Is(r.cause, wanted) })
	default:
		e.Detail = "by its handler, or before it had one"
	}
	j.add(r, at, e)
}

// requeued records that a task was submitted again before its run ended.
func (j *journal) requeued(r *run, now time.Time) {
	j.add(r, now, statemachine.HistoryEntry{Event: statemachine.EventRequeued, Detail: statemachine.DetailRequeued})
}

// updated records a change of the task that has not stopped its handler.
func (j *journal) updated(r *run, now time.Time, detail string) {
	if by := r.claim.origin.by; by != "" {
		detail += ", by " + by
	}
	j.add(r, now, statemachine.HistoryEntry{Event: statemachine.EventUpdated, Detail: detail})
}

// commandDetail says in a history what was commanded, and by whom.
func commandDetail(c statemachine.Command) string {
	if c.By != "" {
		return string(c.Message) + ", by " + c.By
	}
	return string(c.Message)
}

// commanded records that a command was handled, or why it was not. A checkpoint is left
// out: it changes nothing, and those who look often would push out what happened.
func (j *journal) commanded(r *run, c *taskCommand, err error, now time.Time) {
	if c.Message == statemachine.Checkpoint && err == nil {
		return
	}
	detail := commandDetail(c.Command)
	if err != nil {
		detail += ": discarded: " + err.Error()
	}
	j.add(r, now, statemachine.HistoryEntry{Event: statemachine.EventCommand, Detail: detail})
}

// markRecorded marks the runs whose claims are about to be recorded. It removes from
// the audit queue the records of claims that are over, or about to be.
func (in *incarnation) markRecorded(records []coordinator.AuditRecord) {
	for i := range records {
		n := &records[i]
		if r := in.runs[n.ID]; r != nil && r.claim.ref.Token == n.Token && r.phase != life.Ending {
			r.recorded = true
		} else {
			n.Claimed = nil
		}
	}
}

// audited handles the results of writing audit records. Temporary failures are queued again.
func (in *incarnation) audited(records []coordinator.AuditRecord, errs []error) {
	now := time.Now()
	for i, err := range errs {
		switch {
		case err == nil:
		case !broker.Temporary(err) && !errors.Is(err, coordinator.ErrHistoryContended):
			in.events.Corrupt(in.node.space.History(records[i].ID), fmt.Errorf("write the history: %w", err))
		case in.stage != stageClosing:
			in.out.audit.Again(records[i], now)
		}
	}
}
