package kind_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// copyOf returns a copy of tasks whose keys, below tasks/, were written at the revisions
// 1, 2 and so on. Every failure mark skips.
func copyOf(t *testing.T, written ...string) *mirror.Tasks {
	t.Helper()
	space, err := keys.New("k")
	if err != nil {
		t.Fatal(err)
	}
	s := mirror.Snapshot{}
	for _, key := range written {
		s.Revision++
		s.KVs = append(s.KVs, broker.KV{Key: space.Tasks() + key, Created: s.Revision, Modified: s.Revision})
	}
	tasks := mirror.NewTasks(space, mirror.Keep{Skips: func([]byte) bool { return true }})
	tasks.Reset(&s)
	return tasks
}

func TestClaimable_ReportsWhatATaskWaitsFor(t *testing.T) {
	later := now.Add(time.Hour)
	for _, c := range []struct {
		name    string
		facts   kind.Facts
		written []string
		want    kind.Answer
	}{
		{"open", kind.Facts{}, []string{"t"}, kind.Answer{Open: true}},
		{"open from this instant", kind.Facts{NotBefore: now}, []string{"t"}, kind.Answer{Open: true}},
		{"held", kind.Facts{}, []string{"t", "t/owner"}, kind.Answer{}},
		{"unreadable", kind.Facts{Err: fmt.Errorf("not JSON")}, []string{"t"}, kind.Answer{}},
		{"not due", kind.Facts{NotBefore: later}, []string{"t"}, kind.Answer{Until: later}},
		{"waits", kind.Facts{Needs: []string{"a"}}, []string{"t", "a"}, kind.Answer{WaitsFor: "a"}},
		{"waits and not due", kind.Facts{NotBefore: later, Needs: []string{"gone", "a"}}, []string{"t", "a"}, kind.Answer{Until: later, WaitsFor: "a"}},
		{
			"to be killed for the first failure", kind.Facts{NotBefore: later, Needs: []string{"a", "b", "c"}}, []string{"t", "a", "c/failed", "b/failed"},
			kind.Answer{Open: true, Skipped: "b", SkippedAt: 4},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			tasks := copyOf(t, c.written...)
			task := tasks.Get("t")
			if diff := cmp.Diff(c.want, c.facts.Claimable(task, c.facts.Blockers("t"), tasks, now)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestWaits_ReturnsExistingAndFailedBlockers(t *testing.T) {
	tasks := copyOf(t, "pending", "failed/failed", "again/failed", "again", "alone/props", "a_t|b_t", "a_t|c_t", "a_t|c_t|d_t", "a_t|c_t|e_t/failed", "f_t|g_t")
	for _, c := range []struct {
		blockers []string
		most     int
		want     kind.Waiting
	}{
		{[]string{"gone", "alone", "again", "failed", "pending"}, 9, kind.Waiting{By: []string{"again", "failed", "pending"}, Count: 3, Failed: []string{"failed"}, FailedCount: 1}},
		{[]string{"again", "failed", "pending", "a_t|c_t|e_t"}, 1, kind.Waiting{By: []string{"again"}, Count: 4, Failed: []string{"failed"}, FailedCount: 2}},
		{[]string{"a_t", "a_t|*"}, 9, kind.Waiting{By: []string{"a_t|*"}, Count: 4, Failed: []string{"a_t|c_t|e_t"}, FailedCount: 1}},
		{[]string{"a_t|b_t", "a_t|c_t|*", "a_t|*", "f_t|g_t"}, 2, kind.Waiting{By: []string{"a_t|b_t", "a_t|c_t|*"}, Count: 5, Failed: []string{"a_t|c_t|e_t"}, FailedCount: 1}},
		{[]string{"f_t", "f_t|g_t|*", "gone|*"}, 9, kind.Waiting{}},
	} {
		if diff := cmp.Diff(c.want, kind.Waits(c.blockers, tasks, c.most)); diff != "" {
			t.Errorf("%q (-want +got)\n%s", c.blockers, diff)
		}
	}
}

func TestPlace_OrdersByPriorityThenAge(t *testing.T) {
	important, old, again, young := kind.Facts{Priority: 1}, kind.Facts{}, kind.Facts{Turn: 9}, kind.Facts{}
	places := []kind.Place{again.Place("again", 2), young.Place("young", 8), old.Place("b", 3), old.Place("a", 3), important.Place("important", 10)}
	slices.SortFunc(places, kind.Place.Compare)
	var order []string
	for _, p := range places {
		order = append(order, p.ID)
	}
	if diff := cmp.Diff([]string{"important", "a", "b", "young", "again"}, order); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestKinds_ParsesAndKeepsSpecsThatDifferOnlyInTheirOriginOnce(t *testing.T) {
	read := 0
	kinds := kind.New(func(spec []byte) (string, placement.Class, kind.Facts) {
		read++
		return string(spec), placement.Class{Type: "x"}, kind.Facts{}
	})
	spec := func(digest string) []byte {
		return []byte(`{"type":"x","submitted_at":"2026-01-01T00:00:00Z","digest":"` + digest + `"}`)
	}
	first, second, other := kinds.Of(spec("a")), kinds.Of(spec("b")), kinds.Of([]byte(`{"type":"x"}`))
	if first != second || first == other || read != 2 {
		t.Errorf("parsed %d times: %p, %p, %p", read, first, second, other)
	}
	if first.Class != other.Class {
		t.Error("equal classes are not one")
	}
	if o, ok := kind.OriginOf(spec("b")); !ok || string(o.Digest) != "b" || string(o.SubmittedAt) != "2026-01-01T00:00:00Z" || o.Trace != nil {
		t.Errorf("its origin is %q, %v", o, ok)
	}
}
