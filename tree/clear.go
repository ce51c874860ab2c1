package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
)

// Clear removes all jobs of the tree with everything that is known of them: those
// that wait, those that are worked on, whose context ends, and those that have
// ended. Other tasks of the namespace stay. It returns the paths of what it removed,
// or would remove, and can be repeated after an error.
func (t *Tree) Clear(ctx context.Context, dryRun bool) ([]Path, error) {
	records, revisions, err := t.records(ctx)
	if err != nil {
		return nil, fmt.Errorf("clear: %w", err)
	}
	paths := make([]Path, 0, len(records))
	for path := range records {
		paths = append(paths, path)
	}
	// What is below goes first: nothing is to start because it lost its ancestors.
	slices.SortFunc(paths, func(a, b Path) int { return cmp.Or(cmp.Compare(b.Depth(), a.Depth()), comparePaths(a, b)) })
	if dryRun {
		return paths, nil
	}
	t.mu.Lock()
	t.children = nil
	t.mu.Unlock()
	var cleared []Path
	for some := range slices.Chunk(paths, clearBatchMax) {
		txns := make([]broker.Txn, len(some))
		for i, path := range some {
			txns[i] = t.clearing(path, revisions[path])
		}
		for i, r := range t.broker.Commit(ctx, txns...) {
			switch {
			case r.Err != nil:
				err = errors.Join(err, fmt.Errorf("clear %s: %w", some[i], r.Err))
			case r.OK:
				cleared = append(cleared, some[i])
			}
		}
		if err != nil {
			return cleared, err
		}
	}
	return cleared, nil
}

// clearBatchMax bounds the jobs that are removed in one call of the broker.
const clearBatchMax = 5000

// clearing removes one job, unless it was queued anew since. Whoever holds it sees
// that and gives it up; no key of a claim is touched.
func (t *Tree) clearing(path Path, revision broker.Revision) broker.Txn {
	id := path.ID()
	txn := broker.Txn{If: []broker.Cond{broker.Modified(t.space.Job(id), revision)}}
	for _, key := range []string{
		t.space.Job(id), t.space.Task(id), t.space.Props(id), t.space.Failed(id), t.space.Requeue(id), t.space.TaskCommand(id),
		t.space.State(id), t.space.History(id), t.space.Progress(id),
	} {
		txn.Then = append(txn.Then, broker.Delete(key))
	}
	return txn
}
