package outbox

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
)

// recordAt returns a record of an event at a time.
func recordAt(id string, second int) coordinator.AuditRecord {
	return coordinator.AuditRecord{ID: id, History: []statemachine.HistoryEntry{{At: at(second), Detail: fmt.Sprint(second)}}}
}

// claimAt returns a record of a claim on a task without a history.
func claimAt(id string, second int) coordinator.AuditRecord {
	n := recordAt(id, second)
	n.Token, n.Fresh, n.Claimed = 100, true, &coordinator.Record{Reason: fmt.Sprint(second)}
	return n
}

// restartAt returns a record of a restart, which the history does not have.
func restartAt(id string, second int) coordinator.AuditRecord {
	return coordinator.AuditRecord{ID: id, Token: 100, Claimed: &coordinator.Record{Restarts: &statemachine.Restarts{LastAt: at(second)}}}
}

func newAuditQueue(queued ...coordinator.AuditRecord) *AuditQueue {
	q := &AuditQueue{}
	q.BatchMax, q.CallsMax = 10, 1
	for _, n := range queued {
		q.Add(n)
	}
	return q
}

// summary returns the content of a record as text.
func summary(n coordinator.AuditRecord) string {
	text := n.ID
	for _, e := range n.History {
		text += " " + e.Detail
	}
	if n.Claimed != nil {
		text += fmt.Sprintf(" claimed %s as %d", n.Claimed.Reason, n.Token)
	}
	if n.Fresh {
		text += " fresh"
	}
	return text
}

func TestAuditQueue_WaitsForClaimsAndEndings(t *testing.T) {
	for _, c := range []struct {
		name                  string
		queued                []coordinator.AuditRecord
		begun, busyAt, paused time.Time
		closing, busy         bool
		want                  time.Time
	}{
		{name: "nothing is queued"},
		{name: "nothing else to do", queued: []coordinator.AuditRecord{recordAt("a", 99)}, want: at(0).Add(auditPause), begun: at(0)},
		{name: "claims have just come back", queued: []coordinator.AuditRecord{recordAt("a", 99)}, busyAt: at(100), want: at(100).Add(auditQuiet)},
		{name: "busy", queued: []coordinator.AuditRecord{recordAt("a", 99), recordAt("b", 50)}, busy: true, want: at(99).Add(auditWaitMax)},
		{name: "overdue", queued: []coordinator.AuditRecord{recordAt("a", 50)}, busy: true, busyAt: at(100), want: at(50).Add(auditWaitMax)},
		{name: "busy, with a restart alone", queued: []coordinator.AuditRecord{restartAt("a", 99)}, busy: true, want: at(99).Add(auditWaitMax)},
		{name: "closing waits for nothing", queued: []coordinator.AuditRecord{recordAt("a", 99)}, closing: true, busy: true, busyAt: at(100), want: at(100)},
		{name: "closing, and the broker has just refused", queued: []coordinator.AuditRecord{recordAt("a", 99)}, closing: true, paused: at(101), want: at(101)},
		{name: "busy, and the broker has just refused", queued: []coordinator.AuditRecord{recordAt("a", 50)}, busy: true, paused: at(101), want: at(101)},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := newAuditQueue(c.queued...)
			q.begunAt, q.BusyAt = c.begun, c.busyAt
			q.Pause(c.paused)
			got := q.Due(at(100), c.closing, c.busy)
			if !got.Equal(c.want) {
				t.Errorf("due at %s, want %s", got, c.want)
			}
			_, ok := q.Take(at(100), c.closing, c.busy)
			if want := !got.IsZero() && !got.After(at(100)); ok != want {
				t.Errorf("Take returned %v, due at %s", ok, got)
			}
			if due := q.Due(at(100), c.closing, c.busy); !due.IsZero() && !due.After(at(100)) {
				t.Errorf("after Take it is due at %s", due)
			}
		})
	}
}

func TestAuditQueue_HasOneCallAtATime(t *testing.T) {
	q := newAuditQueue(recordAt("a", 0))
	c, _ := q.Take(at(100), false, false)
	q.Add(recordAt("a", 1))
	if due := q.Due(at(200), true, false); !due.IsZero() {
		t.Errorf("with a call in flight it is due at %s", due)
	}
	q.Done(c)
	if _, ok := q.Take(at(100).Add(auditPause-1), false, false); ok {
		t.Error("the next call begins at once")
	}
	if c, ok := q.Take(at(100).Add(auditPause), false, false); !ok || summary(c.Values[0]) != "a 1" {
		t.Errorf("the next call has %v", c.Values)
	}
}

func TestAuditQueue_MergesRecordsAboutOneTask(t *testing.T) {
	for _, c := range []struct {
		name string
		q    func() *AuditQueue
		want []string
	}{
		{"in the order of Add", func() *AuditQueue {
			return newAuditQueue(recordAt("b", 1), recordAt("a", 2), recordAt("b", 3))
		}, []string{"b 1 3", "a 2"}},
		{"the last claim counts, and Fresh of the first", func() *AuditQueue {
			again := claimAt("a", 3)
			again.Token = 7
			return newAuditQueue(claimAt("a", 1), recordAt("a", 2), again)
		}, []string{"a 1 2 3 claimed 3 as 7 fresh"}},
		{"a claim after something else is not fresh", func() *AuditQueue {
			return newAuditQueue(recordAt("a", 1), claimAt("a", 2))
		}, []string{"a 1 2 claimed 2 as 100"}},
		{"a record that was not written goes before those that came meanwhile", func() *AuditQueue {
			q := newAuditQueue(claimAt("a", 1), claimAt("b", 1))
			c, _ := q.Take(at(100), false, false)
			q.Add(recordAt("a", 2))
			q.Done(c)
			for _, n := range c.Values {
				q.Again(n, at(100))
			}
			return q
		}, []string{"a 1 2 claimed 1 as 100", "b 1 claimed 1 as 100 fresh"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, n := range c.q().DropAll() {
				got = append(got, summary(n))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAuditQueue_RecordsAreRetriedAfterAPause(t *testing.T) {
	q := newAuditQueue(recordAt("a", 0))
	c, _ := q.Take(at(100), true, false)
	q.Done(c)
	q.Again(c.Values[0], at(100))
	if due := q.Due(at(100), true, false); !due.Equal(at(100).Add(auditRetry)) {
		t.Errorf("due at %s", due)
	}
}

func TestAuditQueue_HandDownKeepsTheHistoryOnly(t *testing.T) {
	q := newAuditQueue(claimAt("a", 1), recordAt("b", 2))
	left := q.HandDown()
	if len(left) != 2 || summary(left[0]) != "a 1 fresh" || summary(left[1]) != "b 2" || !q.Empty() {
		t.Errorf("it returned %v", left)
	}
}

func TestAuditQueue_HandsDownOnlyWhatTheHistoryIsToHave(t *testing.T) {
	q := newAuditQueue(restartAt("a", 1), claimAt("b", 1), restartAt("c", 1), recordAt("c", 2))
	var left []string
	for _, n := range q.HandDown() {
		left = append(left, summary(n))
	}
	if want := []string{"b 1 fresh", "c 2"}; !slices.Equal(left, want) {
		t.Errorf("%q are handed down, want %q", left, want)
	}
}
