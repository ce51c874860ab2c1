package tree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/windlass-go/windlass/broker"
)

// Clear removes all jobs of the tree with all their data: waiting jobs, held jobs,
// whose context ends, and ended jobs. Other tasks of the namespace stay. It returns the
// paths of what it removed, or would remove, and can be repeated after an error. It does not
// look for tasks outside of the tree that need a job.
//
// The node of a held job may write into its history afterwards; Client.Prune removes
// that.
func (t *Tree) Clear(ctx context.Context, dryRun bool) (cleared []Path, err error) {
	t.mu.Lock()
	t.children = nil
	t.mu.Unlock()
	for range clearRoundsMax {
		records, revisions, err := t.records(ctx)
		if err != nil {
			return cleared, fmt.Errorf("clear: %w", err)
		}
		paths := slices.Collect(maps.Keys(records))
		// Children go first: no job may start because it lost its ancestors.
		slices.SortFunc(paths, func(a, b Path) int { return cmp.Or(cmp.Compare(b.Depth(), a.Depth()), comparePaths(a, b)) })
		if dryRun || len(paths) == 0 {
			return append(cleared, paths...), nil
		}
		gone, err := t.clear(ctx, paths, revisions)
		if cleared = append(cleared, gone...); err != nil || len(gone) == len(paths) {
			return cleared, err
		}
	}
	return cleared, errors.New("clear: jobs are queued again all the time")
}

// clearRoundsMax limits how often Clear looks for jobs that were queued meanwhile.
const clearRoundsMax = 5

// clear removes jobs, except those that were queued again since and their ancestors.
func (t *Tree) clear(ctx context.Context, paths []Path, revisions map[Path]broker.Revision) (gone []Path, err error) {
	kept := map[Path]bool{}
	for len(paths) > 0 {
		var level []Path
		depth := paths[0].Depth()
		for len(paths) > 0 && len(level) < clearBatchMax && paths[0].Depth() == depth {
			if !kept[paths[0]] {
				level = append(level, paths[0])
			}
			paths = paths[1:]
		}
		txns := make([]broker.Txn, len(level))
		for i, path := range level {
			txns[i] = t.clearing(path, revisions[path])
		}
		for i, r := range t.broker.Commit(ctx, txns...) {
			switch {
			case r.Err != nil:
				err = errors.Join(err, fmt.Errorf("clear %s: %w", level[i], r.Err))
			case r.OK:
				gone = append(gone, level[i])
			default:
				for above := level[i].Parent(); above != ""; above = above.Parent() {
					kept[above] = true
				}
			}
		}
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// clearBatchMax limits the jobs that are removed in one call of the broker.
const clearBatchMax = 5000

// clearing removes one job, unless it was queued again since. Its holder notices and gives it
// up; no key of a claim is touched.
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
