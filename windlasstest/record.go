package windlasstest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
)

// Run is one run of a handler.
type Run struct {
	// Task is the ID of the task, Node the name of the node, Token the fencing token of
	// the claim.
	Task  string
	Node  string
	Token int64
	// Started is when the handler was called. Ended is when it returned, or when
	// its node was killed; zero while it runs.
	Started, Ended time.Time
	// Killed is true if its node was killed, or exited, while it ran.
	Killed bool
	// Err is what it returned, or some error if it panicked.
	Err error
	// Cause is why its context had ended before it returned, nil if it had not.
	Cause error
}

// String describes the run in a failing test.
func (r Run) String() string {
	text := fmt.Sprintf("%s(%d) from %s", r.Node, r.Token, clockOf(r.Started))
	switch {
	case r.Ended.IsZero():
		return text + " on"
	case r.Killed:
		return text + " to its node's death at " + clockOf(r.Ended)
	case r.Cause != nil:
		return fmt.Sprintf("%s to %s, told to stop (%v)", text, clockOf(r.Ended), r.Cause)
	default:
		return fmt.Sprintf("%s to %s (%v)", text, clockOf(r.Ended), result(r.Err, r.Cause))
	}
}

// Overlap is a case of two runs of one task at one moment.
type Overlap struct {
	First, Second Run
	// For is how long both ran, up to now for runs that continue.
	For time.Duration
}

// String describes the overlap.
func (o Overlap) String() string {
	return fmt.Sprintf("two handlers of %q at once for %v: %v and %v", o.First.Task, o.For, o.First, o.Second)
}

// records holds all runs. Handlers write them.
type records struct {
	// mu also guards the ledgers, so that a write either precedes a node's death or is
	// refused.
	mu     sync.Mutex
	byTask map[string][]*record
}

type record struct {
	Run
	node *Node
	// cancel ends the handler's context.
	cancel context.CancelCauseFunc
	// returned is set when its goroutine has ended, even on a node that was killed.
	returned bool
}

// began records a run. It returns nil on a node that was killed, which can start nothing.
func (rs *records) began(n *Node, claim *windlass.Claim, cancel context.CancelCauseFunc) *record {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if n.Killed() {
		return nil
	}
	r := &record{node: n, cancel: cancel, Run: Run{Task: claim.ID(), Node: claim.Node(), Token: claim.Token(), Started: time.Now()}}
	if rs.byTask == nil {
		rs.byTask = map[string][]*record{}
	}
	rs.byTask[r.Task] = append(rs.byTask[r.Task], r)
	return r
}

func (rs *records) ended(r *record, err, cause error) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.returned = true
	if r.Ended.IsZero() {
		r.Ended, r.Err, r.Cause = time.Now(), err, cause
	}
}

// killed ends the runs of a node, and the contexts of their handlers.
func (rs *records) killed(n *Node) {
	now := time.Now()
	rs.each(func(r *record) {
		if r.node == n && r.Ended.IsZero() {
			r.Ended, r.Killed = now, true
			r.cancel(ErrKilled)
		}
	})
}

// isKilled reports whether the node of a claim was killed. The caller holds mu.
func (rs *records) isKilled(claim *windlass.Claim) bool {
	for _, r := range rs.byTask[claim.ID()] {
		if r.Token == claim.Token() && r.Node == claim.Node() {
			return r.node.Killed()
		}
	}
	return false
}

// live returns the runs that continue, by task.
func (rs *records) live() map[string][]record {
	live := map[string][]record{}
	rs.each(func(r *record) {
		if r.Ended.IsZero() {
			live[r.Task] = append(live[r.Task], *r)
		}
	})
	return live
}

// working describes the runs whose goroutines have not ended.
func (rs *records) working() (left []string) {
	rs.each(func(r *record) {
		if !r.returned {
			left = append(left, fmt.Sprintf("%q on %v", r.Task, r.Run))
		}
	})
	slices.Sort(left)
	return left
}

func (rs *records) each(do func(*record)) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, runs := range rs.byTask {
		for _, r := range runs {
			do(r)
		}
	}
}

// Runs returns all runs of a task, by the time of their start.
func (c *Cluster) Runs(task string) []Run {
	c.records.mu.Lock()
	defer c.records.mu.Unlock()
	runs := make([]Run, 0, len(c.records.byTask[task]))
	for _, r := range c.records.byTask[task] {
		runs = append(runs, r.Run)
	}
	return runs
}

// Ran returns the IDs of all tasks that ever had a run, sorted.
func (c *Cluster) Ran() []string {
	c.records.mu.Lock()
	defer c.records.mu.Unlock()
	return slices.Sorted(maps.Keys(c.records.byTask))
}

// Running returns how many handlers of a task run now.
func (c *Cluster) Running(task string) int { return len(c.records.live()[task]) }

// Overlaps returns all cases of two runs of one task at one moment, by task.
func (c *Cluster) Overlaps() []Overlap {
	now := time.Now()
	var overlaps []Overlap
	for _, id := range c.Ran() {
		var open []Run // runs that may continue when the next starts
		for _, second := range c.Runs(id) {
			open = slices.DeleteFunc(open, func(first Run) bool {
				return !first.Ended.IsZero() && !first.Ended.After(second.Started)
			})
			for _, first := range open {
				both := min(end(first, now).Sub(second.Started), end(second, now).Sub(second.Started))
				if both > 0 || (first.Ended.IsZero() && second.Ended.IsZero()) {
					overlaps = append(overlaps, Overlap{First: first, Second: second, For: both})
				}
			}
			open = append(open, second)
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
