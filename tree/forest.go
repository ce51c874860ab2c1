package tree

import (
	"context"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass"
)

// Forest is a view of jobs as a tree, or of the part below one of them. It never
// changes, so several goroutines can use it at once. The zero value is empty.
//
// The nodes are kept in the order in which they are drawn: each right before everything
// below it. A part of the tree is therefore a range, and shares the nodes; what a job
// inherits from above is known in the part as well.
type Forest struct {
	nodes []node
	at    map[Path]int
	// from and to are the range that belongs to this forest, jobs is the number
	// of jobs in it.
	from, to, jobs int
}

// node is a job, or a placeholder for a missing ancestor.
type node struct {
	job    JobInfo
	queued bool // it is a job
	look   int
	// end is the index after the last one below it.
	end int
	// interest is the highest rank, the lowest number, of it and all below it.
	interest int
	// culprit is the index of the nearest ancestor that failed, was killed, or is itself
	// blocked for good, so that this one cannot run; -1 if there is none.
	culprit int
	// stuck: it is blocked for good.
	stuck bool
}

// NewForest returns a tree of jobs. Their order does not matter. Of two with the same
// path the later counts, and a job without a path is omitted. A job whose parent is not
// among them is drawn below a placeholder with the empty status: the parent was never
// queued, or is no longer known.
func NewForest(jobs []JobInfo) *Forest {
	order := make([]int, 0, len(jobs))
	for i := range jobs {
		if jobs[i].Path != "" {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return comparePaths(jobs[a].Path, jobs[b].Path) })
	f := &Forest{nodes: make([]node, 0, len(order)), at: make(map[Path]int, len(order))}
	var open []int // the nodes from the root down to the last one
	for i, o := range order {
		path := jobs[o].Path
		if i+1 < len(order) && jobs[order[i+1]].Path == path {
			continue
		}
		for len(open) > 0 && !above(f.nodes[open[len(open)-1]].job.Path, path) {
			open = f.close(open)
		}
		for _, missing := range f.missing(open, path) {
			open = f.open(open, JobInfo{Path: missing}, false)
		}
		open = f.open(open, jobs[o], true)
	}
	for len(open) > 0 {
		open = f.close(open)
	}
	return f.part(0, len(f.nodes))
}

// above reports whether one path is an ancestor of another.
func above(a, b Path) bool {
	return len(a) < len(b) && b[len(a)] == pathSeparator[0] && b[:len(a)] == a
}

// missing returns the paths between the last open node and one below it, the topmost first.
func (f *Forest) missing(open []int, below Path) (paths []Path) {
	var known Path
	if len(open) > 0 {
		known = f.nodes[open[len(open)-1]].job.Path
	}
	for p := below.Parent(); len(p) > len(known); p = p.Parent() {
		paths = append(paths, p)
	}
	slices.Reverse(paths)
	return paths
}

// open appends a node below the last open one.
func (f *Forest) open(open []int, job JobInfo, queued bool) []int {
	n := node{job: job.normal(), queued: queued, look: lookOf(job.Status), culprit: -1}
	if len(open) > 0 {
		i := open[len(open)-1]
		up := &f.nodes[i]
		if n.culprit = up.culprit; up.job.gaveUp() || (up.stuck && up.culprit < 0) {
			n.culprit = i
		}
	}
	n.stuck = (job.Status == windlass.StatusBlocked && n.culprit >= 0) || (job.Pending() && job.Reason != "")
	n.interest = looks[n.look].interest
	f.at[job.Path] = len(f.nodes)
	f.nodes = append(f.nodes, n)
	return append(open, len(f.nodes)-1)
}

// close ends the last open node.
func (f *Forest) close(open []int) []int {
	last := len(open) - 1
	n := &f.nodes[open[last]]
	n.end = len(f.nodes)
	if last > 0 {
		up := &f.nodes[open[last-1]]
		up.interest = min(up.interest, n.interest)
	}
	return open[:last]
}

// part returns the forest of a range.
func (f *Forest) part(from, to int) *Forest {
	p := &Forest{nodes: f.nodes, at: f.at, from: from, to: to}
	for i := from; i < to; i++ {
		if f.nodes[i].queued {
			p.jobs++
		}
	}
	return p
}

// index finds a node of this part.
func (f *Forest) index(p Path) (int, bool) {
	i, ok := f.at[p]
	return i, ok && f.from <= i && i < f.to
}

// Len returns the number of jobs.
func (f *Forest) Len() int { return f.jobs }

// Jobs returns all jobs in the order in which they are drawn: each before those below
// it, siblings by their segments.
func (f *Forest) Jobs() []JobInfo {
	jobs := make([]JobInfo, 0, f.jobs)
	for i := f.from; i < f.to; i++ {
		if f.nodes[i].queued {
			jobs = append(jobs, f.nodes[i].job)
		}
	}
	return jobs
}

// Get returns a job; false if there is none with that path.
func (f *Forest) Get(p Path) (JobInfo, bool) {
	i, ok := f.index(p)
	if !ok || !f.nodes[i].queued {
		return JobInfo{}, false
	}
	return f.nodes[i].job, true
}

// Roots returns the topmost paths, including those of missing jobs.
func (f *Forest) Roots() []Path { return f.paths(f.from, f.to) }

// Children returns the paths right below one, including those of missing jobs. Those of
// the empty path are the roots.
func (f *Forest) Children(p Path) []Path {
	if p == "" {
		return f.Roots()
	}
	i, ok := f.index(p)
	if !ok {
		return nil
	}
	return f.paths(i+1, f.nodes[i].end)
}

// paths returns those of the topmost nodes of a range.
func (f *Forest) paths(from, to int) (paths []Path) {
	for i := from; i < to; i = f.nodes[i].end {
		paths = append(paths, f.nodes[i].job.Path)
	}
	return paths
}

// Subtree returns the job with all those below it; it is empty if there is no such
// path. The empty path returns everything.
func (f *Forest) Subtree(p Path) *Forest {
	if p == "" {
		return f
	}
	i, ok := f.index(p)
	if !ok {
		return f.part(f.from, f.from)
	}
	return f.part(i, f.nodes[i].end)
}

// Find returns the matching jobs of any depth, in the order in which they are drawn.
func (f *Forest) Find(p Pattern) ([]JobInfo, error) { return f.find(context.Background(), p) }

// find stops when ctx ends: even a short pattern can take milliseconds per job.
func (f *Forest) find(ctx context.Context, p Pattern) ([]JobInfo, error) {
	m, err := p.compile("pattern")
	if err != nil {
		return nil, err
	}
	var found []JobInfo
	for i := f.from; i < f.to; i++ {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("find jobs: %w", err)
		}
		if n := &f.nodes[i]; n.queued && m.matches(n.job.Name, n.job.Type) {
			found = append(found, n.job)
		}
	}
	return found, nil
}
