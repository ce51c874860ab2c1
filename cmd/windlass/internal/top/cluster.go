package top

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/view"
)

// Column is what tasks are sorted by, and then by ID.
type Column string

// The columns.
const (
	ByID     Column = "id"
	ByStatus Column = "status"
	ByNode   Column = "node"
	// ByAge has the youngest task first.
	ByAge Column = "age"
	// ByErrors has the task with the most errors first.
	ByErrors Column = "errors"
)

// Columns lists every Column, in the order in which a key selects them.
var Columns = []Column{ByID, ByStatus, ByNode, ByAge, ByErrors}

// row is a task with what is computed once for each change of it.
type row struct {
	windlass.TaskInfo
	// submitted is in nanoseconds, 0 if that is not known; rank is the place of the
	// status.
	submitted int64
	rank      int
	// matches reports whether the filter selects it.
	matches bool
	// stale is set when the task has changed or gone: the row has to leave the order.
	stale bool
}

// cluster is the known state of the cluster. It is not safe for concurrent use.
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
	// order has all tasks. Invariant: sorted, except between apply and settle.
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

// changes are the latest changes since the last call, one for each thing.
type changes struct {
	tasks     map[string]windlass.TaskChange
	nodes     map[string]windlass.NodeChange
	elections map[string]election.LineChange
}

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
		r := &row{TaskInfo: change.Task, rank: slices.Index(windlass.Statuses, change.Task.Status)}
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
		at, _ := slices.BinarySearchFunc(kept, r, c.compare)
		merged = append(append(merged, kept[:at]...), r)
		kept = kept[at:]
	}
	c.order = append(merged, kept...)
	c.reselect()
}

// reselect lists the tasks that match.
func (c *cluster) reselect() {
	c.shown = c.order
	if c.filter != "" {
		c.shown = slices.DeleteFunc(slices.Clone(c.order), func(r *row) bool { return !r.matches })
	}
}

// compare is the order of tasks. It is total.
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
		by = cmp.Compare(view.ErrorCount(b.TaskInfo), view.ErrorCount(a.TaskInfo))
	}
	by = cmp.Or(by, strings.Compare(a.ID, b.ID))
	if c.reverse {
		return -by
	}
	return by
}

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
	text := strings.ToLower(c.filter)
	return slices.ContainsFunc([]string{r.ID, r.Type, string(r.Status), r.Node}, func(of string) bool {
		return strings.Contains(strings.ToLower(of), text)
	})
}

// find returns where a task is among those shown, or where it would be.
func (c *cluster) find(r *row) (index int, ok bool) {
	return slices.BinarySearchFunc(c.shown, r, c.compare)
}

// nodeNames and electionNames are sorted.
func (c *cluster) nodeNames() []string     { return slices.Sorted(maps.Keys(c.nodes)) }
func (c *cluster) electionNames() []string { return slices.Sorted(maps.Keys(c.elections)) }

// snapshot is the view of the cluster, with at most tasksMax tasks.
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
