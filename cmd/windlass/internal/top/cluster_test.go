package top

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/tree"
)

// randomChanges changes, adds and removes tasks.
func randomChanges(r *rand.Rand, n, ids int) changes {
	c := noChanges()
	for range n {
		id := fmt.Sprintf("t%05d", r.IntN(ids))
		if r.IntN(5) == 0 {
			c.tasks[id] = windlass.TaskChange{Task: windlass.TaskInfo{ID: id}, Gone: true}
			continue
		}
		status := windlass.Statuses[r.IntN(len(windlass.Statuses))]
		c.tasks[id] = windlass.TaskChange{Task: taskOf(id, status, fmt.Sprintf("n%d", r.IntN(4)), r.IntN(1000), r.IntN(3))}
	}
	return c
}

func TestCluster_StaysSortedAndCountedAfterChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c := newCluster()
	for round := range 400 {
		switch r.IntN(8) {
		case 0:
			c.sortBy(Columns[r.IntN(len(Columns))], r.IntN(2) == 0)
		case 1:
			c.setFilter([]string{"", "t0", "RUN", "n2", "nowhere"}[r.IntN(5)])
		}
		c.apply(randomChanges(r, 1+r.IntN(60), 500))
		if len(c.order) != len(c.tasks) || !slices.IsSortedFunc(c.order, c.compare) {
			t.Fatalf("round %d: %d in order of %d, sorted: %v", round, len(c.order), len(c.tasks), slices.IsSortedFunc(c.order, c.compare))
		}
		var shown []string
		counts, used := map[windlass.Status]int{}, 0
		for _, row := range c.order {
			if c.tasks[row.ID] != row || row.stale {
				t.Fatalf("round %d: %s is an old row", round, row.ID)
			}
			counts[row.Status]++
			used++
			if c.selects(row) {
				shown = append(shown, row.ID)
			}
		}
		got := make([]string, len(c.shown))
		for i, row := range c.shown {
			got[i] = row.ID
			if at, ok := c.find(row); !ok || at != i {
				t.Fatalf("round %d: %s is found at %d, %v, want %d", round, row.ID, at, ok, i)
			}
		}
		sum := sumOf(slices.Collect(maps.Values(c.used)))
		if !slices.Equal(shown, got) || sum != used {
			t.Fatalf("round %d: shows %d, want %d; %d in use of %d", round, len(got), len(shown), sum, used)
		}
		for s, n := range c.counts {
			if counts[s] != n {
				t.Fatalf("round %d: counts %d %s, want %d", round, n, s, counts[s])
			}
		}
	}
}

func TestSnapshot_HasEveryStatusAndNoNils(t *testing.T) {
	s := newCluster().snapshot(noon, 5)
	if len(s.Counts) != len(windlass.Statuses) || s.Tasks == nil || s.Nodes == nil || s.Elections == nil {
		t.Errorf("it is %+v", s)
	}
	c := newCluster()
	c.apply(some())
	c.setFilter("a")
	if s = c.snapshot(noon, 2); s.Total != 6 || s.Matching != 4 || len(s.Tasks) != 2 || s.Counts[windlass.StatusRunning] != 2 || len(s.Nodes) != 3 || len(s.Elections) != 1 {
		t.Errorf("it is %+v", s)
	}
}

func claim(id, node string, token, revision int64) windlass.TaskChange {
	return windlass.TaskChange{Task: windlass.TaskInfo{ID: id, Node: node, Token: token, Status: windlass.StatusRunning}, Revision: revision}
}

func TestPulse_CountsClaimsAndMovesOfTheLastMinute(t *testing.T) {
	p := newPulse(noon)
	p.since = 10
	at := noon
	step := func(c windlass.TaskChange) {
		at = at.Add(time.Second)
		p.see(c, at)
	}
	step(claim("a", "n1", 5, 10))  // was there before
	step(claim("a", "n1", 5, 11))  // the same claim
	step(claim("b", "n1", 12, 12)) // a claim
	step(claim("b", "n2", 13, 13)) // a move
	step(claim("b", "n2", 14, 14)) // a claim again by the same node
	step(claim("a", "n2", 15, 15)) // a move of one that was there before
	gone := claim("b", "", 0, 16)
	gone.Gone = true
	step(gone)
	step(claim("b", "n3", 17, 17)) // another task of that ID
	r := p.rates(at)
	if sumOf(r.claims) != 5 || sumOf(r.moves) != 2 || len(r.claims) != 8 {
		t.Errorf("it has %v and %v", r.claims, r.moves)
	}
	r = p.rates(at.Add(30 * time.Second))
	if sumOf(r.claims) != 5 || len(r.claims) != 38 {
		t.Errorf("half a minute later it has %v", r.claims)
	}
	for _, later := range []time.Duration{2 * time.Minute, 24 * time.Hour} {
		if r = p.rates(at.Add(later)); sumOf(r.claims) != 0 || sumOf(r.moves) != 0 || len(r.claims) != pulseSeconds {
			t.Errorf("%v later it has %v and %v", later, r.claims, r.moves)
		}
	}
}

func TestSparkline_FitsTheWidth(t *testing.T) {
	for want, in := range map[string]struct {
		counts []int
		width  int
	}{
		"": {nil, 5}, "▁▁▁": {[]int{0, 0, 0}, 5}, "▁▂█": {[]int{0, 1, 100}, 5}, "▄█": {[]int{1, 1, 2, 2}, 2}, "█": {[]int{7}, 1},
	} {
		if got := sparkline(in.counts, in.width); got != want {
			t.Errorf("%v in %d cells is %q, want %q", in.counts, in.width, got, want)
		}
	}
	if got := sparkline([]int{1}, 0); got != "" {
		t.Errorf("without room it is %q", got)
	}
}

func TestJobsHeading_TellsWhatFailedFromWhatIsDone(t *testing.T) {
	for want, p := range map[string]tree.Progress{
		"2 jobs, 100.0% done": {Total: 2, Done: 2, Counts: map[windlass.Status]int{windlass.StatusCompleted: 2}},
		"3000 jobs, 99.9% done, 1 failed": {
			Total: 3000, Done: 2999, Counts: map[windlass.Status]int{windlass.StatusCompleted: 2999, windlass.StatusFailed: 1},
		},
		"4 jobs, 25.0% done, 1 failed, 1 killed, 1 blocked for good": {
			Total: 4, Done: 1, BlockedForGood: 1,
			Counts: map[windlass.Status]int{windlass.StatusCompleted: 1, windlass.StatusFailed: 1, windlass.StatusKilled: 1, windlass.StatusBlocked: 1},
		},
	} {
		if got := jobsHeading(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestGauge_IsFullOnlyAtOneHundredPercent(t *testing.T) {
	for want, part := range map[string]int{"░░░░": 0, "█░░░": 1, "██░░": 50, "████": 100} {
		if got := gauge(part, 100, 4); got != want {
			t.Errorf("%d of 100 is %q, want %q", part, got, want)
		}
	}
	if got := gauge(200, 100, 4) + gauge(3, 0, 2); got != "████░░" {
		t.Errorf("what is over, and of nothing, is %q", got)
	}
}

func TestHint_ListsTheKeys(t *testing.T) {
	for i := range tabsMax {
		hint := hintOf(i)
		for _, a := range actions[i] {
			if !strings.Contains(hint, a.key.Help().Key+" ") {
				t.Errorf("%s: %q does not say %q", tabNames[i], hint, a.key.Help().Key)
			}
		}
	}
}

// manyTasks is how many rows the benchmarks have.
const manyTasks = 300_000

func manyRows(b *testing.B) *model {
	b.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	tasks := make([]windlass.TaskInfo, manyTasks)
	for i := range tasks {
		tasks[i] = tenant(r, i)
	}
	m := Config{Column: ByID, Refresh: RefreshDefault}.model(nil, nil, nil)
	m.width, m.height = 120, 40
	m.cluster.apply(changed(tasks...))
	m.scroll()
	return m
}

func tenant(r *rand.Rand, i int) windlass.TaskInfo {
	return taskOf(fmt.Sprintf("tenant-%06d", i), windlass.StatusRunning, fmt.Sprintf("n%d", r.IntN(50)), i, 0)
}

// BenchmarkFrame applies 25 changes and draws, as four times a second at 100 changes
// a second, with 300,000 tasks.
func BenchmarkFrame(b *testing.B) {
	m := manyRows(b)
	r := rand.New(rand.NewPCG(5, 6))
	for b.Loop() {
		var some []windlass.TaskInfo
		for range 25 {
			some = append(some, tenant(r, r.IntN(manyTasks)))
		}
		m.apply(update{changes: changed(some...), at: noon})
		m.frame()
	}
}

// BenchmarkSort changes the order of 300,000 tasks.
func BenchmarkSort(b *testing.B) {
	m := manyRows(b)
	for i := 0; b.Loop(); i++ {
		m.cluster.sortBy(Columns[i%len(Columns)], false)
	}
}

// BenchmarkFilter filters 300,000 tasks.
func BenchmarkFilter(b *testing.B) {
	m := manyRows(b)
	for b.Loop() {
		m.cluster.setFilter("99")
	}
}
