package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/windlass-go/windlass/broker"
)

// Newer is the name of the JSON members and of the keys that a simulated newer version
// writes.
const Newer = "newer"

// newer is the data of a newer version about a task: whether its state has any, and
// which entries of its history.
type newer struct {
	state   bool
	entries map[string]bool
}

// hasNewer reports whether a value has such a member, at any depth.
func hasNewer(value []byte) bool { return bytes.Contains(value, []byte(`"`+Newer+`":`)) }

// checkNewerState checks that a state keeps the data of a newer version (M06).
func (l *Log) checkNewerState(e broker.Event, id string) {
	if !e.Deleted && l.task(id).newer.state && !hasNewer(e.KV.Value) {
		l.complain("M06: the state of %q loses what a newer version wrote, to token %d", id, l.task(id).owner)
	}
}

// checkNewerHistory checks that the entries of a history keep such data (M06).
func (l *Log) checkNewerHistory(e broker.Event, id string) {
	before := l.task(id).newer.entries
	if len(before) == 0 || e.Deleted {
		return
	}
	for entry, marked := range newerEntries(e.KV.Value) {
		if !marked && before[entry] {
			l.complain("M06: the entry %s in the history of %q loses what a newer version wrote", entry, id)
		}
	}
}

// checkUnknown checks that no unknown key below a task is deleted (M06).
func (l *Log) checkUnknown(e broker.Event) {
	if e.Deleted && strings.HasPrefix(e.KV.Key, l.space.Tasks()) {
		l.complain("M06: %s, which is a newer version's, is deleted", e.KV.Key)
	}
}

func (t *task) takeHistory(e broker.Event) {
	if t.newer.entries = nil; !e.Deleted && hasNewer(e.KV.Value) {
		t.newer.entries = newerEntries(e.KV.Value)
	}
}

// newerEntries returns, for each entry of a history, whether it has such a member. An entry is what
// a history takes for one: with another detail it is another, as when a node that saw a claim end
// replaces what one that came later supposed of it, and both name the same time.
func newerEntries(value []byte) map[string]bool {
	var h struct {
		Entries []struct {
			At, Event, Detail string
			Token             int64
			Newer             json.RawMessage
		}
	}
	if json.Unmarshal(value, &h) != nil {
		return nil // it was damaged by hand
	}
	entries := map[string]bool{}
	for _, entry := range h.Entries {
		entries[fmt.Sprintf("%s of %d at %s (%q)", entry.Event, entry.Token, entry.At, entry.Detail)] = entry.Newer != nil
	}
	return entries
}
