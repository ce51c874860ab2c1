package tree

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
)

// childCounts are how many jobs there are below each, as far as that was counted
// lately.
type childCounts map[Path]childCount

// childCount is how many jobs there were below one, and were queued since by the
// same Tree. Others queue as well, so it is good for a while only.
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
	// countedFor is how many jobs can be queued below one, and countedWithin for how
	// long, before they are counted anew.
	countedFor    = ChildrenMax / 10
	countedWithin = 10 * time.Second
)

// countChildren refuses jobs that would be too many below one. It counts what is
// there now and then, and adds what it has queued since, so that a job costs no
// listing of its siblings. Several who queue at the same
// time can pass the limit by a few.
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

// uncounted are the jobs whose children are not known to leave room for more.
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

// recount counts the jobs below some, but for those that are about to be queued.
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
