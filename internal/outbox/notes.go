package outbox

import (
	"time"

	"github.com/windlass-go/windlass/coordinator"
)

// Notes is the lane of audit records: why a task was claimed, and its history. Nothing
// waits for them, and they wait for claims and endings, for a while. There is one call
// at a time.
type Notes struct {
	Lane[string, coordinator.Note]
	// BusyAt is when the last answer to a claim or an ending arrived.
	BusyAt time.Time
	// begunAt is when the last call began.
	begunAt time.Time
}

const (
	// notesPause is the time between two calls, so that tasks that change all the time
	// do not double the requests.
	notesPause = 200 * time.Millisecond
	// notesQuiet is how long no answers to claims or endings must have arrived. While
	// tasks move from node to node, each node is busy only at times.
	notesQuiet = 100 * time.Millisecond
	// notesWaitMax limits how long notes wait for claims and endings.
	notesWaitMax = 10 * time.Second
	// notesRetry is the delay before notes that failed at the broker are retried.
	notesRetry = time.Second
)

// Add queues a note about a task, after the notes already queued for it.
func (ns *Notes) Add(n coordinator.Note) {
	if i := ns.items[n.ID]; i != nil && i.waits {
		n = merge(i.value, n)
	}
	ns.Put(n.ID, n, time.Time{})
}

// Again queues a note that was not written, before those that have come since.
func (ns *Notes) Again(n coordinator.Note, now time.Time) {
	if i := ns.items[n.ID]; i != nil && i.waits {
		n = merge(n, i.value)
		n.Fresh = false
	}
	ns.Put(n.ID, n, time.Time{})
	ns.Pause(now.Add(notesRetry))
}

// merge combines two notes about a task.
func merge(n, next coordinator.Note) coordinator.Note {
	n.History = append(n.History, next.History...)
	if next.Claimed != nil {
		n.Claimed, n.Token = next.Claimed, next.Token
	}
	return n
}

// Due returns when to write the queued notes, zero if there is nothing to write or a
// call is in flight: soon, if there is nothing else to do. A node that is always busy
// writes overdue notes anyway, and one that closes waits for nothing.
func (ns *Notes) Due(now time.Time, closing, busy bool) time.Time {
	wake := ns.Wake()
	switch {
	case wake.IsZero():
		return wake
	case closing:
		return latest(now, wake)
	case busy:
		return latest(ns.waiting[0].value.History[0].At.Add(notesWaitMax), wake)
	}
	return latest(ns.begunAt.Add(notesPause), ns.BusyAt.Add(notesQuiet), wake)
}

// Take returns the next call if it is due.
func (ns *Notes) Take(now time.Time, closing, busy bool) (c Call[string, coordinator.Note], ok bool) {
	if at := ns.Due(now, closing, busy); at.IsZero() || at.After(now) {
		return c, false
	}
	ns.begunAt = now
	return ns.Lane.Take(now)
}

// HandDown removes and returns the notes for the next session of the node: the claims
// are over, but their history remains to be written.
func (ns *Notes) HandDown() []coordinator.Note {
	left := ns.DropAll()
	for i := range left {
		left[i].Claimed = nil
	}
	return left
}
