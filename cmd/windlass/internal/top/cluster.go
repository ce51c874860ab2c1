package top

import (
	"cmp"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/view"
)

// Column is what tasks are sorted by. Ties are sorted by ID.
type Column string

// The columns.
const (
	ByID     Column = "id"
	ByStatus Column = "status"
	ByNode   Column = "node"
	// ByAge has the task first that was submitted last.
	ByAge Column = "age"
	// ByErrors has the task first that has the most.
	ByErrors Column = "errors"
)

// Columns are all of them, in the order in which they take turns.
var Columns = []Column{ByID, ByStatus, ByNode, ByAge, ByErrors}

// row is a task with what is worked out once for each change of it.
type row struct {
	windlass.TaskInfo
	// submitted is in nanoseconds, 0 if that is not known; rank is the place of the
	// status.
	submitted int64
	rank      int
	// matches tells that the filter selects it.
	matches bool
	// stale tells that it is not, or not any more, where it belongs in the order.
	stale bool
}

var ranks = func() map[windlass.Status]int {
	m := map[windlass.Status]int{}
	for i, s := range windlass.Statuses {
		m[s] = i
	}
	return m
}()

// cluster is what is known. It is not safe for concurrent use.
type cluster struct {
	tasks     map[string]*row
	nodes     map[string]windlass.NodeStatus
	elections map[string]view.Election
	counts    map[windlass.Status]int
	// used is the weight of what each node holds.
	used map[string]int

	column  Column
	reverse bool
	filter  string
	// order has all tasks. Invariant: sorted, but between an apply and its settle.
	order []*row
	// shown are those of order that match, in the same order.
	shown []*row
}

func newCluster() *cluster {
	return &cluster{
		tasks: map[string]*row{}, nodes: map[string]windlass.NodeStatus{}, elections: map[string]view.Election{},
		counts: map[windlass.Status]int{}, used: map[string]int{}, column: ByID,
	}
}

// changes are what has changed since the last ones, each thing once.
type changes struct {
	tasks     map[string]windlass.TaskChange
	nodes     map[string]windlass.NodeChange
	elections map[string]election.LineChange
}

// apply takes changes.
func (c *cluster) apply(some changes) {
	for name, change := range some.nodes {
		if change.Gone {
			delete(c.nodes, name)
		} else {
			c.nodes[name] = change.Node
		}
	}
	for name, change := range some.elections {
		if change.Gone || len(change.Election.Candidates) == 0 {
			delete(c.elections, name)
		} else {
			c.elections[name] = view.ElectionOf(change.Election)
		}
	}
	if len(some.tasks) == 0 {
		return
	}
	var fresh []*row
	for id, change := range some.tasks {
		if was := c.tasks[id]; was != nil {
			was.stale = true
			c.count(was, -1)
			delete(c.tasks, id)
		}
		if change.Gone {
			continue
		}
		r := &row{TaskInfo: change.Task, rank: len(ranks)}
		if rank, known := ranks[r.Status]; known {
			r.rank = rank
		}
		if r.SubmittedAt != nil {
			r.submitted = r.SubmittedAt.UnixNano()
		}
		r.matches = c.selects(r)
		c.tasks[id] = r
		c.count(r, 1)
		fresh = append(fresh, r)
	}
	c.settle(fresh)
}

// count adds a task to the sums, or takes it out.
func (c *cluster) count(r *row, by int) {
	c.counts[r.Status] += by
	if r.Node != "" && r.FinishedAt == nil {
		if c.used[r.Node] += by * max(1, r.Weight); c.used[r.Node] == 0 {
			delete(c.used, r.Node)
		}
	}
}

// settle takes stale rows out of the order and puts fresh ones in their places: a
// few changes must not cost a sort of everything.
func (c *cluster) settle(fresh []*row) {
	kept := slices.DeleteFunc(c.order, func(r *row) bool { return r.stale })
	if len(fresh) > len(kept)/4 {
		c.order = append(kept, fresh...)
		slices.SortFunc(c.order, c.compare)
		c.reselect()
		return
	}
	slices.SortFunc(fresh, c.compare)
	merged := make([]*row, 0, len(kept)+len(fresh))
	for _, r := range fresh {
		at := sort.Search(len(kept), func(i int) bool { return c.compare(kept[i], r) > 0 })
		merged = append(append(merged, kept[:at]...), r)
		kept = kept[at:]
	}
	c.order = append(merged, kept...)
	c.reselect()
}

// reselect lists those that match.
func (c *cluster) reselect() {
	if c.filter == "" {
		c.shown = c.order
		return
	}
	c.shown = nil
	for _, r := range c.order {
		if r.matches {
			c.shown = append(c.shown, r)
		}
	}
}

// compare is the order of tasks. It is total, so that each has one place.
func (c *cluster) compare(a, b *row) int {
	by := 0
	switch c.column {
	case ByStatus:
		by = cmp.Compare(a.rank, b.rank)
	case ByNode:
		by = strings.Compare(a.Node, b.Node)
	case ByAge:
		by = cmp.Compare(b.submitted, a.submitted)
	case ByErrors:
		by = cmp.Compare(len(b.Errors), len(a.Errors))
	}
	by = cmp.Or(by, strings.Compare(a.ID, b.ID))
	if c.reverse {
		return -by
	}
	return by
}

// sortBy changes the order.
func (c *cluster) sortBy(column Column, reverse bool) {
	c.column, c.reverse = column, reverse
	slices.SortFunc(c.order, c.compare)
	c.reselect()
}

// setFilter selects the tasks that have the text in their ID, type, status or node;
// an empty one selects all. Upper and lower case are the same.
func (c *cluster) setFilter(text string) {
	c.filter = text
	for _, r := range c.order {
		r.matches = c.selects(r)
	}
	c.reselect()
}

func (c *cluster) selects(r *row) bool {
	if c.filter == "" {
		return true
	}
	text := strings.ToLower(c.filter)
	for _, of := range []string{r.ID, r.Type, string(r.Status), r.Node} {
		if strings.Contains(strings.ToLower(of), text) {
			return true
		}
	}
	return false
}

// find is where a task is among those shown, or where it would be.
func (c *cluster) find(r *row) (index int, ok bool) {
	i := sort.Search(len(c.shown), func(i int) bool { return c.compare(c.shown[i], r) >= 0 })
	return i, i < len(c.shown) && c.shown[i].ID == r.ID
}

// nodeNames and electionNames are sorted.
func (c *cluster) nodeNames() []string     { return slices.Sorted(maps.Keys(c.nodes)) }
func (c *cluster) electionNames() []string { return slices.Sorted(maps.Keys(c.elections)) }

// snapshot is the view of it, with so many tasks at most.
func (c *cluster) snapshot(now time.Time, tasksMax int) view.Top {
	t := view.Top{
		At: now.UTC().Truncate(time.Millisecond), Total: len(c.tasks), Counts: map[windlass.Status]int{}, Matching: len(c.shown),
		Tasks: []windlass.TaskInfo{}, Nodes: []windlass.NodeStatus{}, Elections: []view.Election{},
	}
	for _, s := range windlass.Statuses {
		t.Counts[s] = c.counts[s]
	}
	for _, r := range c.shown[:min(len(c.shown), tasksMax)] {
		t.Tasks = append(t.Tasks, r.TaskInfo)
	}
	for _, name := range c.nodeNames() {
		t.Nodes = append(t.Nodes, c.nodes[name])
	}
	for _, name := range c.electionNames() {
		t.Elections = append(t.Elections, c.elections[name])
	}
	return t
}
