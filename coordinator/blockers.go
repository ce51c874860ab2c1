package coordinator

import (
	"context"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/subtree"
)

// waits returns the blockers for which the claim has conditions, as many as fit into
// its transaction, and the others. Those that stand for all below a job are among these.
func (w Wanted) waits() (conditions, others []string) {
	if w.Skipped != "" || w.Command != 0 {
		return nil, nil
	}
	own := 2 // that the task exists and has no owner
	if w.PropsOnly {
		own++
	}
	tasks, trees := w.Blockers, []string(nil)
	if slices.ContainsFunc(w.Blockers, depend.IsTree) {
		tasks = nil
		for _, b := range w.Blockers {
			if depend.IsTree(b) {
				trees = append(trees, b)
			} else {
				tasks = append(tasks, b)
			}
		}
	}
	n := min(len(tasks), (broker.TxnOpsMax-own)/2)
	return tasks[:n], slices.Concat(tasks[n:], trees)
}

// gone returns the conditions that a task does not exist and blocks nothing.
func (c *claims) gone(id string) []broker.Cond {
	return []broker.Cond{broker.Absent(c.space.Task(id)), broker.Absent(c.space.Failed(id))}
}

// check looks for the blockers for which granted claims had no condition. To look after
// the grant is as good as a condition: a blocker that was there at the grant, and is not
// now, has ended in between, before any handler begins.
func (c *claims) check(ctx context.Context, wanted []Wanted, results []Result) {
	var txns []broker.Txn
	var claim []int             // of each transaction
	trees := map[int][]string{} // of each claim that waits for all below a job, as listed
	for i, w := range wanted {
		_, others := w.waits()
		if results[i].Err != nil || len(others) == 0 {
			continue
		}
		jobs, err := subtree.Expand(ctx, c.broker, c.space, others)
		if err != nil {
			results[i].Blocked = true
			continue
		}
		if slices.ContainsFunc(others, depend.IsTree) {
			trees[i] = jobs
		}
		for some := range slices.Chunk(jobs, broker.TxnOpsMax/2) {
			var txn broker.Txn
			for _, b := range some {
				txn.If = append(txn.If, c.gone(b)...)
			}
			txns, claim = append(txns, txn), append(claim, i)
		}
	}
	if len(txns) > 0 {
		for k, r := range c.broker.Commit(ctx, txns...) {
			if r.Err != nil || !r.OK {
				results[claim[k]].Blocked = true
			}
		}
	}
	for i, jobs := range trees {
		results[i].Blocked = results[i].Blocked || c.hasGrown(ctx, wanted[i], jobs)
	}
}

// hasGrown reports whether a claim waits for jobs that were not listed before, or that is
// not known. A handler stores jobs below its own before that ends. So once all that were
// listed have ended, a second listing has all that they have stored in the meantime.
func (c *claims) hasGrown(ctx context.Context, w Wanted, listed []string) bool {
	_, others := w.waits()
	now, err := subtree.Expand(ctx, c.broker, c.space, others)
	if err != nil {
		return true
	}
	known := make(map[string]bool, len(listed))
	for _, id := range listed {
		known[id] = true
	}
	return slices.ContainsFunc(now, func(id string) bool { return !known[id] })
}
