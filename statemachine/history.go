package statemachine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/internal/stored"
)

// History is the value of history/<task>: the latest events of a task. It is for
// people; nothing is decided by it.
type History struct {
	// Claims counts the claims of the task that an entry tells of. Interruptions counts the claims that ended
	// without its handler or a command requesting it: a node died, was drained or lost
	// its session, or the task was moved. Both include what is no longer in Entries.
	Claims        int `json:"claims"`
	Interruptions int `json:"interruptions"`
	// Entries lists the latest entries in order of claims, the oldest first.
	Entries []HistoryEntry `json:"entries"`

	unknown stored.Unknown
}

// HistoryEntry is one event of a task.
type HistoryEntry struct {
	// At is the time of the event, by the clock of the node that recorded it.
	At time.Time `json:"at"`
	// Event is the event.
	Event Event `json:"event"`
	// Node held the task, under Token.
	Node  string `json:"node,omitempty"`
	Token int64  `json:"token,omitempty"`
	// Interruption is true for the end of a claim that counts as one.
	Interruption bool `json:"interruption,omitempty"`
	// Detail is additional text for people, at most HistoryDetailBytesMax bytes.
	Detail string `json:"detail,omitempty"`
	// Unseen is true for the end of a claim that no node saw: it ended at some time between the entry
	// before and At, when the next claim showed it.
	Unseen bool `json:"unseen,omitempty"`

	unknown stored.Unknown
}

// Event is an event of a task. A change of its state is named after the state.
type Event string

// The events that are not states.
const (
	// EventClaimed: a node claimed it; the detail says why.
	EventClaimed Event = "claimed"
	// EventReleased: the node gave the claim back; the detail says why.
	EventReleased Event = "released"
	// EventLost: the claim ended before its node could end it: its session expired, or the
	// owner key was deleted. Whoever was cut off records when its handler ended, the next claim
	// when another node saw that the claim had: with the session of a process that died up to
	// its TTL before. It is an interruption unless the task slept or was paused.
	EventLost Event = "lost"
	// EventCommand: a command to the task was handled; the detail says which.
	EventCommand Event = "command"
	// EventRequeued: the task is pending again, as it was submitted while it ran.
	EventRequeued Event = "requeued"
	// EventUpdated: its handler received new properties, or its tags were changed.
	EventUpdated Event = "updated"
	// EventLooping: what its handler runs keeps ending soon, and is started again
	// (Restarts). It is recorded as that begins, not with each restart.
	EventLooping Event = "looping"
)

// Limits of a history.
const (
	// HistoryMax is how many entries are kept.
	HistoryMax = 20
	// HistoryDetailBytesMax limits the detail of an entry; a longer one keeps its
	// beginning.
	HistoryDetailBytesMax = 200
)

// DetailRequeued is the detail of EventRequeued, and DetailAfterError what precedes the error in the detail of the
// state that follows from it.
const (
	DetailRequeued   = "as it was queued while it ran"
	DetailAfterError = "after an error: "
)

// SleepDetail is the detail of a sleep until a time, and after an error if failure is not empty.
func SleepDetail(until time.Time, failure string) string {
	detail := "until " + until.UTC().Format(time.RFC3339)
	if failure != "" {
		detail += ", " + DetailAfterError + failure
	}
	return detail
}

// unseen is the detail of the end of a claim that no node saw.
const unseen = "no node saw when: by now at the latest"

// ParseHistory parses a history. An empty value is an empty history. Unknown fields are
// kept for Encode.
func ParseHistory(value []byte) (History, error) {
	var h History
	if len(value) == 0 {
		return h, nil
	}
	all, err := stored.Unmarshal(value, &h)
	if err != nil {
		return History{}, fmt.Errorf("history: %w", err)
	}
	if !all {
		h.keepUnknown(value)
	}
	return h, nil
}

// keepUnknown keeps the fields of the parsed value that the history does not define.
func (h *History) keepUnknown(value []byte) {
	h.unknown = stored.UnknownIn(value, *h)
	var raw struct {
		Entries []json.RawMessage `json:"entries"`
	}
	_ = json.Unmarshal(value, &raw) // it was parsed before
	for i := range h.Entries {
		h.Entries[i].unknown = stored.UnknownIn(raw.Entries[i], h.Entries[i])
	}
}

// Encode returns the value of the key, including what a newer version wrote into it.
func (h History) Encode() ([]byte, error) {
	if !slices.ContainsFunc(h.Entries, func(e HistoryEntry) bool { return e.unknown != "" }) {
		return stored.MarshalWith(h, h.unknown)
	}
	entries, err := stored.MarshalEach(h.Entries, func(e HistoryEntry) stored.Unknown { return e.unknown })
	if err != nil {
		return nil, err
	}
	return stored.MarshalWith(struct {
		History
		Entries []json.RawMessage `json:"entries"` // in place of the history's
	}{h, entries}, h.unknown)
}

// endsClaim reports whether nothing follows for the same claim.
func (e Event) endsClaim() bool {
	return e == EventReleased || e == EventLost || State(e).Terminal()
}

// Add adds entries. It can be repeated: entries that are present already, or older than
// all that is kept, are not added, so an attempt whose outcome is unknown can be
// repeated. Nodes write their entries a little later, and so not in order: Add inserts
// an entry at its claim. The late entry of a claim's end replaces what others have told of
// it: that it was lost. Of several that say so the earliest is true, as each was sure then; why it was lost is known
// from any of them.
func (h *History) Add(entries ...HistoryEntry) {
	for _, e := range entries {
		if e.Unseen && e.Detail == "" {
			e.Detail = unseen
		}
		e.Detail = cut(e.Detail, HistoryDetailBytesMax)
		if !h.forgotten(e) && !slices.ContainsFunc(h.Entries, e.same) {
			h.add(e)
		}
		h.trim()
	}
	h.concludeLost()
	h.trim()
}

func (h *History) trim() {
	if over := len(h.Entries) - HistoryMax; over > 0 {
		h.Entries = slices.Delete(h.Entries, 0, over)
	}
}

// forgotten reports whether an entry is older than what is kept.
func (h *History) forgotten(e HistoryEntry) bool {
	if len(h.Entries) < HistoryMax {
		return false
	}
	first := h.Entries[0]
	return e.Token < first.Token || e.Token == first.Token && e.At.Before(first.At)
}

func (h *History) add(e HistoryEntry) {
	first := e.Node != "" && !slices.ContainsFunc(h.Entries, func(o HistoryEntry) bool { return o.Node != "" && o.Token == e.Token })
	if e.Event.endsClaim() {
		if i := h.end(e.Token); i >= 0 && h.Entries[i].Event != EventLost {
			if e.Event == EventLost {
				return
			}
		} else if i >= 0 {
			if e.Event == EventLost {
				o := &h.Entries[i]
				if !e.tellsMore(*o) {
					o.Detail = cmp.Or(o.cause(), e.cause(), o.Detail)
					return
				}
				e.Detail = cmp.Or(e.cause(), o.cause(), e.Detail)
			}
			h.interrupted(i, false)
			h.Entries = slices.Delete(h.Entries, i, i+1)
		}
	}
	if first {
		h.Claims++
	}
	if e.Interruption {
		h.Interruptions++
	}
	at := len(h.Entries)
	for at > 0 && e.precedes(h.Entries[at-1]) {
		at--
	}
	h.Entries = slices.Insert(h.Entries, at, e)
}

// tellsMore reports whether one entry that a claim was lost says more of when than another.
func (e HistoryEntry) tellsMore(o HistoryEntry) bool {
	if e.Unseen != o.Unseen {
		return o.Unseen
	}
	return e.At.Before(o.At)
}

// cause returns why a claim was lost, empty if the entry does not know.
func (e HistoryEntry) cause() string {
	if e.Unseen {
		return "" // its detail is about when
	}
	return e.Detail
}

// interrupted says of an entry whether it is an interruption.
func (h *History) interrupted(i int, yes bool) {
	switch e := &h.Entries[i]; {
	case yes && !e.Interruption:
		h.Interruptions++
	case !yes && e.Interruption:
		h.Interruptions--
	}
	h.Entries[i].Interruption = yes
}

// precedes reports whether an entry belongs before one that was there before. A node ends its
// claim with its last entry; what others do to the task may follow.
func (e HistoryEntry) precedes(o HistoryEntry) bool {
	switch {
	case e.Token != o.Token:
		return e.Token < o.Token
	case o.Node == "" && e.Node != "":
		return e.At.Before(o.At)
	case o.Event.endsClaim() && !e.Event.endsClaim():
		return e.Node != "" || e.At.Before(o.At)
	}
	return false
}

// concludeLost adds the missing end of each claim that another claim follows, and says of those that
// were lost whether they were interrupted.
func (h *History) concludeLost() {
	for i := len(h.Entries) - 1; i > 0; i-- {
		last, next := h.Entries[i-1], h.Entries[i]
		switch {
		case next.Event == EventLost && last.Token == next.Token:
			h.interrupted(i, h.ranLast(i))
		case last.Token != next.Token && h.end(last.Token) < 0:
			h.Entries = slices.Insert(h.Entries, i, HistoryEntry{At: next.At, Event: EventLost, Node: last.Node, Token: last.Token, Unseen: true, Detail: unseen})
			h.interrupted(i, h.ranLast(i))
		}
	}
}

// end returns the index of the entry with which a claim ends, -1 if there is none.
func (h *History) end(token int64) int {
	return slices.IndexFunc(h.Entries, func(e HistoryEntry) bool { return e.Token == token && e.Event.endsClaim() })
}

// ranLast reports whether the claim that the first n entries end with may have had its
// handler run at last: it neither slept nor was it paused.
func (h *History) ranLast(n int) bool {
	for _, e := range slices.Backward(h.Entries[:n]) {
		if e.Event != EventCommand && e.Event != EventUpdated || e.Token != h.Entries[n-1].Token {
			return State(e.Event) != Sleeping && State(e.Event) != Paused
		}
	}
	return true
}

func (e HistoryEntry) same(o HistoryEntry) bool {
	return e.At.Equal(o.At) && e.Event == o.Event && e.Token == o.Token && e.Detail == o.Detail
}

// cut keeps the beginning of a text, in whole characters.
func cut(s string, bytesMax int) string {
	s = strings.ToValidUTF8(s, "\uFFFD") // as JSON encodes it
	if len(s) <= bytesMax {
		return s
	}
	const mark = "…"
	return strings.ToValidUTF8(s[:bytesMax-len(mark)], "") + mark
}
