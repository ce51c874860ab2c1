package statemachine

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func entry(token int64, second int, event Event) HistoryEntry {
	return HistoryEntry{At: time.Unix(int64(second), 0).UTC(), Event: event, Node: "n", Token: token}
}

func summary(h History) string {
	var parts []string
	for _, e := range h.Entries {
		parts = append(parts, string(rune('0'+e.Token))+string(e.Event))
	}
	return strings.Join(parts, " ")
}

func wantHistory(t *testing.T, h History, entries string, claims, interruptions int) {
	t.Helper()
	if got := summary(h); got != entries || h.Claims != claims || h.Interruptions != interruptions {
		t.Errorf("%s, %d claims, %d interruptions; want %s, %d, %d", got, h.Claims, h.Interruptions, entries, claims, interruptions)
	}
}

// The entries of two nodes about their claims are interleaved in every way.
func TestHistory_DoesNotDependOnTheOrderInWhichNodesWrite(t *testing.T) {
	a := []HistoryEntry{entry(1, 1, EventClaimed), entry(1, 2, Event(Sleeping)), entry(1, 3, EventReleased)}
	b := []HistoryEntry{entry(2, 4, EventClaimed), entry(2, 5, Event(Runnable)), entry(2, 6, Event(Completed))}
	var interleave func(h []HistoryEntry, a, b []HistoryEntry)
	interleave = func(order, a, b []HistoryEntry) {
		if len(a)+len(b) > 0 {
			if len(a) > 0 {
				interleave(append(order[:len(order):len(order)], a[0]), a[1:], b)
			}
			if len(b) > 0 {
				interleave(append(order[:len(order):len(order)], b[0]), a, b[1:])
			}
			return
		}
		var h History
		for _, e := range order {
			h.Add(e)
			h.Add(e) // an attempt whose outcome was unknown
		}
		wantHistory(t, h, "1claimed 1sleeping 1released 2claimed 2runnable 2completed", 2, 0)
	}
	interleave(nil, a, b)
}

func TestHistory_M55_AClaimWithoutAnEndCountsAsInterrupted(t *testing.T) {
	var h History
	h.Add(entry(1, 1, EventClaimed), entry(2, 2, EventClaimed))
	wantHistory(t, h, "1claimed 1lost 2claimed", 2, 1)
	drained := entry(2, 3, EventReleased)
	drained.Interruption = true
	h.Add(drained, entry(3, 4, EventClaimed))
	wantHistory(t, h, "1claimed 1lost 2claimed 2released 3claimed", 3, 2)
	h.Add(entry(1, 2, EventReleased)) // node 1 records its release late
	wantHistory(t, h, "1claimed 1released 2claimed 2released 3claimed", 3, 1)
}

// Notes with an unknown outcome are repeated, also if most of their entries are no
// longer kept.
func TestHistory_AddingAgainChangesNothing(t *testing.T) {
	var h History
	for round := range 5 {
		var note []HistoryEntry
		for i := range 3 * HistoryMax {
			token := int64(round*1000 + i)
			e := entry(token, int(token), EventReleased)
			e.Detail, e.Interruption = "\xff\xfe no text", true
			note = append(note, entry(token, int(token), EventClaimed), e)
		}
		h.Add(note...)
		before, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseHistory(before)
		if err != nil {
			t.Fatal(err)
		}
		back.Add(note...)
		if after, _ := json.Marshal(back); string(after) != string(before) {
			t.Fatalf("round %d:\n%s\n%s", round, before, after)
		}
		if want := (round + 1) * 3 * HistoryMax; h.Claims != want || h.Interruptions != want {
			t.Fatalf("round %d: %d claims and %d interruptions, want %d", round, h.Claims, h.Interruptions, want)
		}
	}
}

func TestHistory_ALateEntryOfALostClaimIsConcludedToo(t *testing.T) {
	var h History
	h.Add(entry(2, 20, EventClaimed))
	h.Add(entry(1, 10, EventClaimed)) // its node died after that
	wantHistory(t, h, "1claimed 1lost 2claimed", 2, 1)
}

// A claim of a task that sleeps or is paused is lost without an interruption.
func TestHistory_M55_WhatDidNotRunIsNotInterrupted(t *testing.T) {
	for last, interruptions := range map[Event]int{Event(Sleeping): 0, Event(Paused): 0, Event(Runnable): 1, Event(Fault): 1} {
		var h History
		h.Add(entry(1, 1, EventClaimed), entry(1, 2, Event(Sleeping)), entry(1, 3, last), entry(1, 4, EventCommand), entry(2, 5, EventClaimed))
		wantHistory(t, h, "1claimed 1sleeping 1"+string(last)+" 1command 1lost 2claimed", 2, interruptions)
		h.Add(entry(1, 4, EventReleased)) // its node records the end late
		wantHistory(t, h, "1claimed 1sleeping 1"+string(last)+" 1command 1released 2claimed", 2, 0)
	}
}

// Whoever runs a task again notes it after the end of its last claim. Its node may write that
// end later, and the next node its claim before either.
func TestHistory_M55_WhatIsDoneToATaskThatHasEndedFollowsItsEnd(t *testing.T) {
	entries := []HistoryEntry{entry(1, 1, EventClaimed), entry(1, 2, Event(Runnable)), entry(1, 3, Event(Failed)), {At: time.Unix(4, 0), Event: EventCommand, Token: 1}, entry(2, 5, EventClaimed)}
	var each func(h History, left []HistoryEntry)
	each = func(h History, left []HistoryEntry) {
		if len(left) == 0 {
			wantHistory(t, h, "1claimed 1runnable 1failed 1command 2claimed", 2, 0)
			return
		}
		for i, e := range left {
			if e.Node != "" && slices.ContainsFunc(left[:i], func(o HistoryEntry) bool { return o.Node != "" && o.Token == e.Token }) {
				continue // a node writes in order
			}
			next := h
			next.Entries = slices.Clone(h.Entries)
			next.Add(e)
			each(next, slices.Delete(slices.Clone(left), i, i+1))
		}
	}
	each(History{}, entries)
	var h History
	h.Add(entries[0], HistoryEntry{At: time.Unix(2, 0), Event: EventCommand, Token: 1}, entries[2])
	wantHistory(t, h, "1claimed 1command 1failed", 1, 0)
}

// Several may tell that a claim was lost: its node when its handler ended, others when they saw its
// session end, and the next claim when it found nothing else. The first of these was sure already. One may know why.
func TestHistory_M55_ALostClaimEndedWhenSomebodyKnewItFirst(t *testing.T) {
	lost := func(second int) HistoryEntry { return entry(1, second, EventLost) }
	var knows HistoryEntry
	var each func(h History, left []HistoryEntry)
	each = func(h History, left []HistoryEntry) {
		if len(left) == 0 {
			wantHistory(t, h, "1claimed 1lost 2claimed", 2, 1)
			if e := h.Entries[1]; e.At.Unix() != min(10, knows.At.Unix()) || e.Unseen || e.Detail != "why" {
				t.Fatalf("it was lost at %v because of %q, unseen: %v", e.At.Unix(), e.Detail, e.Unseen)
			}
			return
		}
		for i, e := range left {
			next := h
			next.Entries = slices.Clone(h.Entries)
			next.Add(e)
			next.Add(e) // an attempt whose outcome was unknown
			each(next, slices.Delete(slices.Clone(left), i, i+1))
		}
	}
	for _, second := range []int{5, 10, 15} { // before who is first without it, with that, and later
		knows = lost(second)
		knows.Detail = "why"
		each(History{}, []HistoryEntry{entry(1, 1, EventClaimed), lost(20), lost(10), knows, entry(2, 30, EventClaimed)})
	}
	var h History
	h.Add(entry(1, 1, EventClaimed), entry(2, 30, EventClaimed))
	if e := h.Entries[1]; !e.Unseen || e.At.Unix() != 30 || e.Detail == "" {
		t.Errorf("what nobody saw end is told as %+v", e)
	}
	h.Add(entry(1, 5, EventReleased), lost(4)) // it is known how it ended
	wantHistory(t, h, "1claimed 1released 2claimed", 2, 0)
}

// A node may die before it has recorded its claim; what it did with the task in it may be known later.
func TestHistory_M55_AClaimThatOnlyItsEndTellsOfCounts(t *testing.T) {
	var h History
	lost := entry(1, 10, EventLost)
	lost.Interruption = true
	h.Add(lost, entry(2, 30, EventClaimed))
	wantHistory(t, h, "1lost 2claimed", 2, 1)
	h.Add(lost, entry(1, 1, EventClaimed))
	wantHistory(t, h, "1claimed 1lost 2claimed", 2, 1)
	h.Add(entry(1, 5, Event(Sleeping)))
	wantHistory(t, h, "1claimed 1sleeping 1lost 2claimed", 2, 0)
	h.Add(HistoryEntry{At: time.Unix(40, 0), Event: Event(Killed), Token: 3}) // by a client, for which nobody worked
	wantHistory(t, h, "1claimed 1sleeping 1lost 2claimed 2lost 3killed", 2, 1)
}

func TestHistory_IsLimited(t *testing.T) {
	var h History
	for i := range 100 {
		e := entry(int64(i), i, EventClaimed)
		e.Detail = strings.Repeat("ä", 1000)
		h.Add(e, entry(int64(i), i, EventReleased))
	}
	if len(h.Entries) != HistoryMax || h.Claims != 100 || h.Entries[HistoryMax-1].Token != 99 {
		t.Errorf("%d entries, %d claims, the last %+v", len(h.Entries), h.Claims, h.Entries[HistoryMax-1])
	}
	if d := h.Entries[0].Detail; len(d) > HistoryDetailBytesMax || !utf8.ValidString(d) || !strings.HasSuffix(d, "ä…") {
		t.Errorf("a detail of %d bytes: %q", len(d), d)
	}
	value, err := json.Marshal(h)
	if err != nil || len(value) > 16<<10 {
		t.Errorf("%d bytes, %v", len(value), err)
	}
	if back, err := ParseHistory(value); err != nil || summary(back) != summary(h) {
		t.Errorf("read back: %s, %v", summary(back), err)
	}
	if _, err := ParseHistory([]byte("{")); err == nil {
		t.Error("half a history was accepted")
	}
}
