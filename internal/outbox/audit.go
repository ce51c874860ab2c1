package outbox

import (
	"slices"
	"time"

	"github.com/windlass-go/windlass/coordinator"
)

// AuditQueue is the lane of audit records: why a task was claimed, and its history. Nothing
// waits for them, and they wait for claims and endings, for a while. There is one call
// at a time.
type AuditQueue struct {
	Lane[string, coordinator.AuditRecord]
	// BusyAt is when the last answer to a claim or an ending arrived.
	BusyAt time.Time
	// begunAt is when the last call began.
	begunAt time.Time
}

const (
	// auditPause is the time between two calls, so that tasks that change all the time
	// do not double the requests.
	auditPause = 200 * time.Millisecond
	// auditQuiet is how long no answers to claims or endings must have arrived. While
	// tasks move from node to node, each node is busy only at times.
	auditQuiet = 100 * time.Millisecond
	// auditWaitMax limits how long records wait for claims and endings.
	auditWaitMax = 10 * time.Second
	// auditRetry is the delay before records that failed at the broker are retried.
	auditRetry = time.Second
)

// Add queues a record about a task, after the records already queued for it.
func (q *AuditQueue) Add(n coordinator.AuditRecord) {
	if i := q.items[n.ID]; i != nil && i.waits {
		n = merge(i.value, n)
	}
	q.Put(n.ID, n, time.Time{})
}

// Again queues a record that was not written, before those that have come since.
func (q *AuditQueue) Again(n coordinator.AuditRecord, now time.Time) {
	if i := q.items[n.ID]; i != nil && i.waits {
		n = merge(n, i.value)
		n.Fresh = false
	}
	q.Put(n.ID, n, time.Time{})
	q.Pause(now.Add(auditRetry))
}

// merge combines two records about a task.
func merge(n, next coordinator.AuditRecord) coordinator.AuditRecord {
	n.History = append(n.History, next.History...)
	if next.Claimed != nil {
		n.Claimed, n.Token = next.Claimed, next.Token
	}
	return n
}

// Due returns when to write the queued records, zero if there is nothing to write or a
// call is in flight: soon, if there is nothing else to do. A node that is always busy
// writes overdue records anyway, and one that closes waits for nothing.
func (q *AuditQueue) Due(now time.Time, closing, busy bool) time.Time {
	wake := q.Wake()
	switch {
	case wake.IsZero():
		return wake
	case closing:
		return latest(now, wake)
	case busy:
		return latest(happened(q.waiting[0].value).Add(auditWaitMax), wake)
	}
	return latest(q.begunAt.Add(auditPause), q.BusyAt.Add(auditQuiet), wake)
}

// happened returns the time of the first event in a record.
func happened(n coordinator.AuditRecord) time.Time {
	switch {
	case len(n.History) > 0:
		return n.History[0].At
	case n.Claimed != nil && n.Claimed.Restarts != nil:
		return n.Claimed.Restarts.LastAt
	}
	return time.Time{}
}

// Take returns the next call if it is due.
func (q *AuditQueue) Take(now time.Time, closing, busy bool) (c Call[string, coordinator.AuditRecord], ok bool) {
	if at := q.Due(now, closing, busy); at.IsZero() || at.After(now) {
		return c, false
	}
	q.begunAt = now
	return q.Lane.Take(now)
}

// HandDown removes and returns the records for the next session of the node: the claims
// are over, but their history remains to be written.
func (q *AuditQueue) HandDown() []coordinator.AuditRecord {
	left := slices.DeleteFunc(q.DropAll(), func(n coordinator.AuditRecord) bool { return len(n.History) == 0 })
	for i := range left {
		left[i].Claimed = nil
	}
	return left
}
