package tree

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
)

// childCounts are recent counts of the children of jobs.
type childCounts map[Path]childCount

// childCount is the number of children when they were counted, and of those that this Tree
// has queued since. Others queue as well, so the count expires.
type childCount struct {
	jobs, since int
	at          time.Time
}

func (c childCount) good(more int) bool {
	return c.jobs+more <= ChildrenMax && c.since+more < countedFor && time.Since(c.at) < countedWithin
}

const (
	// countedMax bounds the jobs whose children are remembered.
	countedMax = 100_000
	// After countedFor more children, or countedWithin, they are counted again.
	countedFor    = ChildrenMax / 10
	countedWithin = 10 * time.Second
)

// countChildren refuses jobs that would exceed the limit of children. It counts them from time
// to time and adds what it has queued since, so that a job costs no listing of its siblings.
// Several clients that queue at the same time can exceed the limit slightly.
func (t *Tree) countChildren(ctx context.Context, submissions []windlass.Submission) error {
	more := map[Path]map[Path]bool{}
	for _, s := range submissions {
		path := pathOf(s.ID)
		parent := path.Parent()
		if parent == "" {
			continue
		}
		if more[parent] == nil {
			more[parent] = map[Path]bool{}
		}
		more[parent][path] = true
	}
	counts, err := t.recount(ctx, t.uncounted(more), more)
	if err != nil {
		return fmt.Errorf("count the jobs below others: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.children == nil {
		t.children = childCounts{}
	}
	maps.Copy(t.children, counts)
	for parent, children := range more {
		if n := t.children[parent].jobs + len(children); n > ChildrenMax {
			return &windlass.BadInputError{Field: "jobs below " + string(parent), Value: fmt.Sprint(n),
				Limit: fmt.Sprintf("must be at most %d", ChildrenMax)}
		}
	}
	for parent, children := range more {
		c := t.children[parent]
		c.jobs, c.since = c.jobs+len(children), c.since+len(children)
		t.children[parent] = c
	}
	return nil
}

// uncounted returns the jobs whose children must be counted before more are queued.
func (t *Tree) uncounted(more map[Path]map[Path]bool) (parents []Path) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.children)+len(more) > countedMax {
		t.children = nil
	}
	for parent, children := range more {
		if !t.children[parent].good(len(children)) {
			parents = append(parents, parent)
		}
	}
	return parents
}

// recount counts the children of jobs, without those that are about to be queued.
func (t *Tree) recount(ctx context.Context, parents []Path, more map[Path]map[Path]bool) (childCounts, error) {
	if len(parents) == 0 {
		return nil, nil
	}
	prefix := t.space.Jobs()
	if len(parents) == 1 {
		prefix = t.space.JobTree(parents[0].ID())
	}
	kvs, _, err := broker.Collect(ctx, t.broker, prefix)
	if err != nil {
		return nil, err
	}
	counts, now := make(childCounts, len(parents)), time.Now()
	for _, parent := range parents {
		counts[parent] = childCount{at: now}
	}
	for _, kv := range kvs {
		path := pathOf(t.space.Parse(kv.Key).Name)
		parent := path.Parent()
		if c, open := counts[parent]; open && !more[parent][path] {
			c.jobs++
			counts[parent] = c
		}
	}
	return counts, nil
}
