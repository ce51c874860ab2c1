// Package journal writes what a node does with a task into the task's history.
package journal

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/edit"
	"github.com/windlass-go/windlass/internal/life"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/outbox"
	"github.com/windlass-go/windlass/statemachine"
)

// Journal has the records of a node that are to be written.
type Journal struct {
	outbox.AuditQueue
	// node is the name of the node, incarnation that of its session.
	node, incarnation string
}

// New returns the journal of a node with the records that are left of an earlier session. A call writes at most so many.
func New(node, incarnation string, batchMax int, left []coordinator.AuditRecord) *Journal {
	j := &Journal{node: node, incarnation: incarnation}
	j.BatchMax, j.CallsMax = batchMax, 1
	for _, n := range left {
		j.Add(n)
	}
	return j
}

// Claim is a claim as a journal knows it.
type Claim struct {
	coordinator.Ref
	// At is when it was granted, and Reason why it was made.
	At     time.Time
	Reason string
	// restarted is whether its record may have restarts, and loopedAt is when the history was last told that what
	// the handler runs keeps ending.
	restarted bool
	loopedAt  time.Time
}

// add queues an entry about a held task.
func (j *Journal) add(c *Claim, at time.Time, entry statemachine.HistoryEntry) {
	entry.At, entry.Token, entry.Node = at.UTC(), int64(c.Token), j.node
	j.Add(coordinator.AuditRecord{ID: c.ID, History: []statemachine.HistoryEntry{entry}})
}

// Granted records that a claim was granted, and why it was made. fresh is true if the task may not have run yet, and detail
// what else there is to say. lost are claims before that ended with their nodes: those may not have had the time to record
// them.
func (j *Journal) Granted(c *Claim, fresh bool, detail string, lost []mirror.End) {
	at := c.At.UTC()
	var history []statemachine.HistoryEntry
	for _, e := range lost {
		if e.Token != 0 {
			history = append(history, statemachine.HistoryEntry{
				At: e.At.UTC(), Event: statemachine.EventLost, Token: int64(e.Token), Node: e.Node, Detail: life.Crash{Process: e.Process}.Error(), Interruption: true, Unseen: e.Late,
			})
		}
	}
	record := j.record(c, nil)
	record.Fresh = fresh
	record.History = append(history, statemachine.HistoryEntry{
		At: at, Event: statemachine.EventClaimed, Token: int64(c.Token), Node: j.node, Detail: c.Reason + detail,
	})
	j.Add(record)
}

// loopEvery is the least time between two entries that what a handler runs keeps ending.
const loopEvery = time.Hour

// Restarted records how often a handler has started again what it runs. The history has only
// that a loop begins: its restarts would push out what happened.
func (j *Journal) Restarted(c *Claim, restarts statemachine.Restarts) {
	c.restarted = true
	record := j.record(c, &restarts)
	if restarts.InARow == statemachine.RestartsMany && restarts.LastAt.Sub(c.loopedAt) >= loopEvery {
		c.loopedAt = restarts.LastAt
		record.History = []statemachine.HistoryEntry{{
			At: restarts.LastAt.UTC(), Event: statemachine.EventLooping, Token: int64(c.Token), Node: j.node,
			Detail: fmt.Sprintf("restart %d in a row: %s", restarts.InARow, restarts.LastEnd),
		}}
	}
	j.Add(record)
}

// Returned removes the restarts of a handler that has returned: a claim outlives its handler
// while the task is paused or sleeps, and the next handler may have nothing to start again.
func (j *Journal) Returned(c *Claim) {
	if c.restarted {
		c.restarted = false
		j.Add(j.record(c, nil))
	}
}

// record returns a record of a claim with its restarts, nil for none.
func (j *Journal) record(c *Claim, restarts *statemachine.Restarts) coordinator.AuditRecord {
	return coordinator.AuditRecord{
		ID: c.ID, Token: c.Token,
		Claimed: &coordinator.Record{ClaimedAt: c.At.UTC(), Incarnation: j.incarnation, Reason: c.Reason, Restarts: restarts},
	}
}

// Stored records the state that was stored, from a time on. faulted is true if an error led to it.
func (j *Journal) Stored(c *Claim, r *life.Record, faulted bool, at time.Time) {
	detail, fault := "", ""
	if faulted {
		fault = statemachine.LastError(r.Errors)
	}
	switch {
	case r.State == statemachine.Sleeping && r.Until != nil:
		detail = statemachine.SleepDetail(*r.Until, fault)
	case fault != "" && !r.State.Terminal():
		detail = statemachine.DetailAfterError + fault
	case r.State == statemachine.Failed:
		detail = statemachine.LastError(r.Errors)
	case r.State == statemachine.Paused && r.TypePaused:
		detail = "its type is paused"
	}
	j.add(c, at, statemachine.HistoryEntry{Event: statemachine.Event(r.State), Detail: detail})
}

// Lost records that a claim had ended before this node could end it. at is when its handler did, if it ran.
func (j *Journal) Lost(c *Claim, cause error, ran bool, at time.Time) {
	j.add(c, at, statemachine.HistoryEntry{Event: statemachine.EventLost, Detail: cause.Error(), Interruption: ran})
}

// Released records that a claim was given back, for a cause, nil for none. to is the node that is to have the task, empty
// for any, and ran is whether its handler had run.
func (j *Journal) Released(c *Claim, cause error, to string, ran bool, at time.Time) {
	e := statemachine.HistoryEntry{Event: statemachine.EventReleased}
	switch crashed := (life.Crash{}); {
	case errors.As(cause, &crashed):
		j.Lost(c, cause, ran, at)
		return
	case to == j.node:
		e.Detail = "to run again here: " + cause.Error() // somebody wanted it
	case to != "":
		e.Detail, e.Interruption = "to move to node "+to, ran // or it slept, or was paused
	case cause != nil:
		e.Detail, e.Interruption = cause.Error(), !slices.ContainsFunc(wanted, func(w error) bool { return errors.Is(cause, w) })
	default:
		e.Detail = "by its handler, or before it had one"
	}
	j.add(c, at, e)
}

// wanted are the causes that somebody has wanted.
var wanted = []error{life.ErrDeleted, life.ErrUpdated, life.ErrTypePaused}

// Requeued records that a task was submitted again before its run ended.
func (j *Journal) Requeued(c *Claim, now time.Time) {
	j.add(c, now, statemachine.HistoryEntry{Event: statemachine.EventRequeued, Detail: statemachine.DetailRequeued})
}

// Updated records a change of the task, by somebody, that has not stopped its handler.
func (j *Journal) Updated(c *Claim, by, detail string, now time.Time) {
	if by != "" {
		detail += ", by " + by
	}
	j.add(c, now, statemachine.HistoryEntry{Event: statemachine.EventUpdated, Detail: detail})
}

// Commanded records that a command was handled, or why it was not. A checkpoint is left
// out: it changes nothing, and those who look often would push out what happened.
func (j *Journal) Commanded(c *Claim, command statemachine.Command, err error, now time.Time) {
	if command.Message == statemachine.Checkpoint && err == nil {
		return
	}
	detail := edit.CommandDetail(command)
	if err != nil {
		detail += ": discarded: " + err.Error()
	}
	j.add(c, now, statemachine.HistoryEntry{Event: statemachine.EventCommand, Detail: detail})
}
