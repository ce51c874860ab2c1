package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/statemachine"
)

func recordOf(id string, token broker.Revision, event statemachine.Event) AuditRecord {
	n := AuditRecord{ID: id, Token: token, History: []statemachine.HistoryEntry{{At: time.Now().UTC(), Event: event, Token: int64(token)}}}
	if event == statemachine.EventClaimed {
		n.Claimed = &Record{ClaimedAt: n.History[0].At, Incarnation: "i", Reason: "placed"}
	}
	return n
}

func (w *world) events(id string) (events []statemachine.Event) {
	w.t.Helper()
	h, err := statemachine.ParseHistory([]byte(w.get("/c/history/" + id)))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range h.Entries {
		events = append(events, e.Event)
	}
	return events
}

func TestAudit_WritesARecordOnlyWhileItsClaimIsHeld(t *testing.T) {
	inWorld(t, func(w *world) {
		c, r, _ := w.claimed("")
		records := []AuditRecord{recordOf("a", r.Token, statemachine.EventClaimed), recordOf("b", 1, statemachine.EventClaimed)}
		for i, err := range c.Audit(context.Background(), records) {
			if err != nil {
				t.Errorf("record %d: %v", i, err)
			}
		}
		if w.get("/c/claims/a") == "-" || w.get("/c/claims/b") != "-" {
			t.Errorf("a: %s, b: %s", w.get("/c/claims/a"), w.get("/c/claims/b"))
		}
		if len(w.events("a")) != 1 || len(w.events("b")) != 1 {
			t.Errorf("a: %v, b: %v", w.events("a"), w.events("b"))
		}
		if e := endOne(c, r.Ending(Release)); e.Err != nil || w.get("/c/claims/a") != "-" {
			t.Errorf("%v, and the record is %q", e.Err, w.get("/c/claims/a"))
		}
	})
}

// The reply is lost after the history was written.
func TestAudit_CanBeRepeatedAfterAnUnknownOutcome(t *testing.T) {
	inWorld(t, func(w *world) {
		c, f, _ := w.node("n", "lose-reply 1s on commit call 2")
		n := recordOf("a", 1, statemachine.EventReleased)
		first := c.Audit(context.Background(), []AuditRecord{n})[0]
		second := c.Audit(context.Background(), []AuditRecord{n})[0]
		if first == nil || second != nil || len(w.events("a")) != 1 {
			t.Errorf("%v, %v, %v; %v", first, second, w.events("a"), f)
		}
	})
}

func TestAudit_DoesNotOverwriteAnUnreadableHistory(t *testing.T) {
	inWorld(t, func(w *world) {
		c, _, _ := w.node("n", "")
		w.put("/c/history/a", "{")
		err := c.Audit(context.Background(), []AuditRecord{recordOf("a", 1, statemachine.EventReleased)})[0]
		if err == nil || w.get("/c/history/a") != "{" {
			t.Errorf("%v, %s", err, w.get("/c/history/a"))
		}
	})
}

// The node that gave a task up and the node that has it now write at about the same
// time.
func TestAudit_ConcurrentWritersLoseNoEntries(t *testing.T) {
	inWorld(t, func(w *world) {
		const nodes = 8
		var all sync.WaitGroup
		for i := range nodes {
			c, _, _ := w.node(fmt.Sprint("n", i), "delay-request 1ms on commit chance 0.5")
			all.Go(func() {
				n := recordOf("a", broker.Revision(i+1), statemachine.EventReleased)
				err := ErrHistoryContended
				for errors.Is(err, ErrHistoryContended) {
					err = c.Audit(context.Background(), []AuditRecord{n})[0]
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := w.events("a"); len(got) != nodes {
			t.Errorf("%d of %d: %v", len(got), nodes, got)
		}
	})
}
