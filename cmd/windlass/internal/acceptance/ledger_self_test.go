//go:build e2e && linux

package acceptance

import (
	"strings"
	"testing"
)

// The ledger must be able to find fault.
func TestLedger_SeesWhatEndsTwiceAndWhatNothingLeadsTo(t *testing.T) {
	l := newLedger(t)
	put := func(key, value string, created, modified int64) {
		l.book([]put{{key: root + key, value: []byte(value), created: created, modified: modified}})
	}
	const done = `{"state":"completed","token":7}`
	put("tasks/a/owner", `{}`, 5, 5)
	put("tasks/a/owner", `{}`, 7, 7)
	put("state/a", done, 9, 9)
	put("state/b", done, 10, 10)
	put("state/b", done, 10, 10) // listed again
	put("tasks/c/owner", `{}`, 11, 11)
	put("tasks/c/owner", `{}`, 11, 11)
	grants, handOvers, doubled, failed := l.sums()
	if grants != 3 || handOvers != 1 || len(doubled)+len(failed) > 0 || l.endedAt("a") != (ending{9, 7}) {
		t.Fatalf("%d grants, %d hand-overs, %q, %q, %+v", grants, handOvers, doubled, failed, l.endedAt("a"))
	}
	put("state/a", done, 9, 11)
	put("tasks/b/owner", `{}`, 12, 12)
	put("state/c", `{"state":"failed"}`, 13, 13)
	put("state/endless-001", done, 14, 14)
	put("state/d", done, 15, 16)
	_, _, doubled, failed = l.sums()
	if len(doubled) != 3 || !strings.Contains(doubled[0], "task a") || !strings.Contains(doubled[1], "task b") || !strings.Contains(doubled[2], "task d") {
		t.Errorf("doubled are %q", doubled)
	}
	if len(failed) != 2 || !strings.Contains(failed[0], "task c") || !strings.Contains(failed[1], "endless") {
		t.Errorf("failed are %q", failed)
	}
}
