package outbox

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
)

// noteAt returns a note of an event at a time.
func noteAt(id string, second int) coordinator.Note {
	return coordinator.Note{ID: id, History: []statemachine.HistoryEntry{{At: at(second), Detail: fmt.Sprint(second)}}}
}

// claimAt returns a note of a claim on a task without a history.
func claimAt(id string, second int) coordinator.Note {
	n := noteAt(id, second)
	n.Token, n.Fresh, n.Claimed = 100, true, &coordinator.Record{Reason: fmt.Sprint(second)}
	return n
}

func newNotes(queued ...coordinator.Note) *Notes {
	ns := &Notes{}
	ns.BatchMax, ns.CallsMax = 10, 1
	for _, n := range queued {
		ns.Add(n)
	}
	return ns
}

// summary returns the content of a note as text.
func summary(n coordinator.Note) string {
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

func TestNotes_WaitForClaimsAndEndings(t *testing.T) {
	for _, c := range []struct {
		name                  string
		queued                []coordinator.Note
		begun, busyAt, paused time.Time
		closing, busy         bool
		want                  time.Time
	}{
		{name: "nothing is queued"},
		{name: "nothing else to do", queued: []coordinator.Note{noteAt("a", 99)}, want: at(0).Add(notesPause), begun: at(0)},
		{name: "claims have just come back", queued: []coordinator.Note{noteAt("a", 99)}, busyAt: at(100), want: at(100).Add(notesQuiet)},
		{name: "busy", queued: []coordinator.Note{noteAt("a", 99), noteAt("b", 50)}, busy: true, want: at(99).Add(notesWaitMax)},
		{name: "overdue", queued: []coordinator.Note{noteAt("a", 50)}, busy: true, busyAt: at(100), want: at(50).Add(notesWaitMax)},
		{name: "closing waits for nothing", queued: []coordinator.Note{noteAt("a", 99)}, closing: true, busy: true, busyAt: at(100), want: at(100)},
		{name: "closing, and the broker has just refused", queued: []coordinator.Note{noteAt("a", 99)}, closing: true, paused: at(101), want: at(101)},
		{name: "busy, and the broker has just refused", queued: []coordinator.Note{noteAt("a", 50)}, busy: true, paused: at(101), want: at(101)},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns := newNotes(c.queued...)
			ns.begunAt, ns.BusyAt = c.begun, c.busyAt
			ns.Pause(c.paused)
			got := ns.Due(at(100), c.closing, c.busy)
			if !got.Equal(c.want) {
				t.Errorf("due at %s, want %s", got, c.want)
			}
			_, ok := ns.Take(at(100), c.closing, c.busy)
			if want := !got.IsZero() && !got.After(at(100)); ok != want {
				t.Errorf("Take returned %v, due at %s", ok, got)
			}
			if due := ns.Due(at(100), c.closing, c.busy); !due.IsZero() && !due.After(at(100)) {
				t.Errorf("after Take it is due at %s", due)
			}
		})
	}
}

func TestNotes_HaveOneCallAtATime(t *testing.T) {
	ns := newNotes(noteAt("a", 0))
	c, _ := ns.Take(at(100), false, false)
	ns.Add(noteAt("a", 1))
	if due := ns.Due(at(200), true, false); !due.IsZero() {
		t.Errorf("with a call in flight it is due at %s", due)
	}
	ns.Done(c)
	if _, ok := ns.Take(at(100).Add(notesPause-1), false, false); ok {
		t.Error("the next call begins at once")
	}
	if c, ok := ns.Take(at(100).Add(notesPause), false, false); !ok || summary(c.Values[0]) != "a 1" {
		t.Errorf("the next call has %v", c.Values)
	}
}

func TestNotes_MergesNotesAboutOneTask(t *testing.T) {
	for _, c := range []struct {
		name string
		ns   func() *Notes
		want []string
	}{
		{"in the order of Add", func() *Notes {
			return newNotes(noteAt("b", 1), noteAt("a", 2), noteAt("b", 3))
		}, []string{"b 1 3", "a 2"}},
		{"the last claim counts, and Fresh of the first", func() *Notes {
			again := claimAt("a", 3)
			again.Token = 7
			return newNotes(claimAt("a", 1), noteAt("a", 2), again)
		}, []string{"a 1 2 3 claimed 3 as 7 fresh"}},
		{"a claim after something else is not fresh", func() *Notes {
			return newNotes(noteAt("a", 1), claimAt("a", 2))
		}, []string{"a 1 2 claimed 2 as 100"}},
		{"a note that was not written goes before those that came meanwhile", func() *Notes {
			ns := newNotes(claimAt("a", 1), claimAt("b", 1))
			c, _ := ns.Take(at(100), false, false)
			ns.Add(noteAt("a", 2))
			ns.Done(c)
			for _, n := range c.Values {
				ns.Again(n, at(100))
			}
			return ns
		}, []string{"a 1 2 claimed 1 as 100", "b 1 claimed 1 as 100 fresh"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, n := range c.ns().DropAll() {
				got = append(got, summary(n))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestNotes_AreRetriedAfterAPause(t *testing.T) {
	ns := newNotes(noteAt("a", 0))
	c, _ := ns.Take(at(100), true, false)
	ns.Done(c)
	ns.Again(c.Values[0], at(100))
	if due := ns.Due(at(100), true, false); !due.Equal(at(100).Add(notesRetry)) {
		t.Errorf("due at %s", due)
	}
}

func TestNotes_HandDownKeepsTheHistoryOnly(t *testing.T) {
	ns := newNotes(claimAt("a", 1), noteAt("b", 2))
	left := ns.HandDown()
	if len(left) != 2 || summary(left[0]) != "a 1 fresh" || summary(left[1]) != "b 2" || !ns.Empty() {
		t.Errorf("it returned %v", left)
	}
}
