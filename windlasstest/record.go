package windlasstest

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
)

// Run is one run of a handler.
type Run struct {
	// Task is its ID, Node the name of the node, Token the fencing token of the
	// claim.
	Task  string
	Node  string
	Token int64
	// Started is when the handler was called. Ended is when it returned, or when
	// its node was killed; zero while it runs.
	Started, Ended time.Time
	// Killed tells that its node was killed while it ran.
	Killed bool
	// Err is what it returned; nil also after a panic.
	Err error
	// Cause is why its context had ended before it returned, nil if it had not.
	Cause error
}

// String describes the run in a failing test.
func (r Run) String() string {
	text := fmt.Sprintf("%s(%d) from %s", r.Node, r.Token, r.Started.Format("15:04:05.000"))
	switch {
	case r.Ended.IsZero():
		return text + " on"
	case r.Killed:
		return text + " to its node's death at " + r.Ended.Format("15:04:05.000")
	case r.Cause != nil:
		return fmt.Sprintf("%s to %s, told to stop (%v)", text, r.Ended.Format("15:04:05.000"), r.Cause)
	default:
		return text + " to " + r.Ended.Format("15:04:05.000")
	}
}

// Overlap is two runs of one task at one moment.
type Overlap struct {
	First, Second Run
	// For is how long both ran, up to now for runs that go on.
	For time.Duration
}

// String describes the overlap.
func (o Overlap) String() string {
	return fmt.Sprintf("two handlers of %q at once for %v: %v and %v", o.First.Task, o.For, o.First, o.Second)
}

// records are all runs. Handlers write them.
type records struct {
	mu     sync.Mutex
	byTask map[string][]*record
}

type record struct {
	Run
	node *Node
}

func (rs *records) began(n *Node, claim *windlass.Claim) *record {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := &record{node: n, Run: Run{Task: claim.ID(), Node: claim.Node(), Token: claim.Token(), Started: time.Now()}}
	if n.killed.Load() { // its process has ended and does not know
		r.Ended, r.Killed = r.Started, true
	}
	if rs.byTask == nil {
		rs.byTask = map[string][]*record{}
	}
	rs.byTask[r.Task] = append(rs.byTask[r.Task], r)
	return r
}

func (rs *records) ended(r *record, err, cause error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r.Ended.IsZero() {
		r.Ended, r.Err, r.Cause = time.Now(), err, cause
	}
}

// killed ends the runs of a node.
func (rs *records) killed(n *Node) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	now := time.Now()
	for _, runs := range rs.byTask {
		for _, r := range runs {
			if r.node == n && r.Ended.IsZero() {
				r.Ended, r.Killed = now, true
			}
		}
	}
}

// live are the runs that go on, by task.
func (rs *records) live() map[string][]Run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	live := map[string][]Run{}
	for id, runs := range rs.byTask {
		for _, r := range runs {
			if r.Ended.IsZero() {
				live[id] = append(live[id], r.Run)
			}
		}
	}
	return live
}

// Runs are all runs of a task, by the time of their start.
func (c *Cluster) Runs(task string) []Run {
	c.records.mu.Lock()
	defer c.records.mu.Unlock()
	runs := make([]Run, 0, len(c.records.byTask[task]))
	for _, r := range c.records.byTask[task] {
		runs = append(runs, r.Run)
	}
	return runs
}

// Ran are the IDs of all tasks that ever had a run, sorted.
func (c *Cluster) Ran() []string {
	c.records.mu.Lock()
	defer c.records.mu.Unlock()
	ids := make([]string, 0, len(c.records.byTask))
	for id := range c.records.byTask {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Running is how many handlers of a task run.
func (c *Cluster) Running(task string) int { return len(c.records.live()[task]) }

// Overlaps are all cases of two runs of one task at one moment, by task.
func (c *Cluster) Overlaps() []Overlap {
	now := time.Now()
	var overlaps []Overlap
	for _, id := range c.Ran() {
		runs := c.Runs(id)
		for i, second := range runs {
			for _, first := range runs[:i] {
				both := minTime(end(first, now), end(second, now)).Sub(second.Started)
				if both > 0 || (first.Ended.IsZero() && second.Ended.IsZero()) {
					overlaps = append(overlaps, Overlap{First: first, Second: second, For: both})
				}
			}
		}
	}
	return overlaps
}

// AssertNoOverlap fails the test for each case of two runs of one task at one
// moment. Test does this at its end.
func (c *Cluster) AssertNoOverlap() {
	c.t.Helper()
	overlaps := c.Overlaps()
	slices.SortStableFunc(overlaps, func(a, b Overlap) int { return cmp.Compare(b.For, a.For) })
	const shown = 10
	for _, o := range overlaps[:min(len(overlaps), shown)] {
		c.t.Error(o)
	}
	if len(overlaps) > shown {
		c.t.Errorf("and %d overlaps more", len(overlaps)-shown)
	}
}

func end(r Run, now time.Time) time.Time {
	if r.Ended.IsZero() {
		return now
	}
	return r.Ended
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
