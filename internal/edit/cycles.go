package edit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/invalid"
	"github.com/windlass-go/windlass/internal/subtree"
)

// refuseCycles refuses the tasks that would wait for themselves, through live tasks or
// tasks of the same call.
func (b *Batch) refuseCycles(ctx context.Context) {
	g, err := b.graphOf(ctx, b.open)
	if err != nil {
		b.refuseAll(err)
		return
	}
	acyclic := depend.Acyclic(g.waits)
	kept := b.open[:0]
	cycles := map[string]error{} // by the tasks in them
	for _, t := range b.open {
		if cycles[t.ID] == nil && !acyclic[t.ID] {
			if path := depend.Cycle(t.ID, func(id string) []string { return g.waits[id] }); path != nil {
				err := leadsBack(path)
				for _, id := range path {
					cycles[id] = err
				}
			}
		}
		if t.Err = cycles[t.ID]; t.Err == nil {
			kept = append(kept, t)
		}
	}
	b.open = kept
}

func leadsBack(path []string) error {
	return &invalid.Input{Field: "needs", Value: depend.Arrows(path), Limit: depend.NoWayBack}
}

// takeBackCycles checks for cycles again after the submission, because two clients can
// each submit one half of a cycle that neither saw before. The client that wrote last
// takes its half back, and what needs it in the same call. None of these tasks has run by
// then: each waits for another.
func (b *Batch) takeBackCycles(ctx context.Context, submitted []*Task) {
	g, err := b.graphOf(ctx, submitted)
	acyclic := depend.Acyclic(g.waits)
	slices.SortFunc(submitted, func(a, b *Task) int { return cmp.Compare(a.written, b.written) })
	var back []*Task
	why := map[string]error{} // of those to be taken back
	for _, t := range submitted {
		blockers := t.blockers()
		if len(blockers) == 0 || err == nil && acyclic[t.ID] {
			continue
		}
		if err != nil {
			t.Err = fmt.Errorf("submit task %q: it is submitted, and may wait for itself: %w", t.ID, err)
			t.Effect = ""
			continue
		}
		if path := depend.Cycle(t.ID, g.upTo(t.written)); path != nil {
			why[t.ID] = leadsBack(path)
			delete(g.waits, t.ID)
		} else if i := slices.IndexFunc(blockers, func(need string) bool { return isUnmet(need, why) }); i >= 0 {
			why[t.ID] = unmetNeed(t.ID, blockers[i], nil)
		} else {
			continue
		}
		back = append(back, t)
	}
	for _, t := range slices.Backward(back) { // what needs another before that, or it would run
		if t.Err = t.takeBack(ctx, b.broker, why[t.ID]); t.Err != nil {
			t.Effect = ""
		}
	}
}

// isUnmet reports whether a need is among the tasks that are taken back.
func isUnmet(need string, back map[string]error) bool {
	job, all := depend.Tree(need)
	if !all {
		return back[need] != nil
	}
	for id := range back {
		if depend.IsBelow(id, job) {
			return true
		}
	}
	return false
}

// takeBack restores what was stored before a submission, and returns the reason.
func (t *Task) takeBack(ctx context.Context, b broker.Broker, why error) error {
	if t.replacing() && t.before == nil {
		return fmt.Errorf("%w; it is submitted, and what was there before is not known any more", why)
	}
	txn := broker.Txn{If: []broker.Cond{broker.Modified(t.space.Task(t.ID), t.written)}}
	switch {
	case t.held != 0:
		txn.If = []broker.Cond{broker.Modified(t.space.Requeue(t.ID), t.written)}
	case t.updates == nil || t.Job:
		txn.If = append(txn.If, broker.Absent(t.space.Owner(t.ID)))
	}
	for i, key := range t.replacedBy() {
		op := broker.Delete(key)
		if t.before != nil && t.before[i] != nil {
			op = broker.Put(key, t.before[i].Value)
		}
		txn.Then = append(txn.Then, op)
	}
	r, maybe, err := attempts.Commit(ctx, b, txn)
	switch {
	case err != nil:
		return fmt.Errorf("%w; taking it back: %w", why, err)
	case !r.OK && !maybe:
		return nil // somebody has changed or deleted it since: there is no cycle, or they look
	}
	return why
}

// graph is the graph of which live task waits for which.
type graph struct {
	waits map[string][]string
	// written is the revision at which a task's current needs were written.
	written map[string]broker.Revision
}

// upTo returns the graph without the tasks that were written after a revision.
func (g graph) upTo(last broker.Revision) func(id string) []string {
	return func(id string) []string {
		if g.written[id] > last {
			return nil
		}
		return g.waits[id]
	}
}

// graphOf reads the graph that is reachable from some tasks. The tasks' own needs are
// those that are being submitted.
func (b *Batch) graphOf(ctx context.Context, some []*Task) (graph, error) {
	g := graph{waits: map[string][]string{}, written: map[string]broker.Revision{}}
	var frontier []string
	for _, t := range some {
		frontier = append(frontier, t.blockers()...)
	}
	if len(frontier) == 0 {
		return g, nil
	}
	for _, t := range some {
		g.waits[t.ID], g.written[t.ID] = t.blockers(), t.written
	}
	err := b.readGraph(ctx, g, frontier)
	depend.AddTrees(g.waits)
	return g, err
}

// graphMax limits the tasks that a cycle check reads.
const graphMax = 100_000

// readGraph reads, level by level, what the live tasks of the frontier wait for.
func (b *Batch) readGraph(ctx context.Context, g graph, frontier []string) error {
	known := len(g.waits)
	for len(frontier) > 0 {
		var txns []broker.Txn
		var ids, trees []string
		for _, id := range frontier {
			if _, known := g.waits[id]; !known {
				g.waits[id] = nil
				if job, all := depend.Tree(id); all {
					trees = append(trees, job)
					continue
				}
				ids = append(ids, id)
				txns = append(txns, broker.Txn{Then: []broker.Op{broker.Read(b.space.Task(id)), broker.Read(b.space.Requeue(id))}})
			}
		}
		if read := len(g.waits) - known; read > graphMax {
			return &invalid.Input{Field: "needs", Value: fmt.Sprintf("%d tasks", read), Limit: fmt.Sprintf("must not lead to more than %d tasks", graphMax)}
		}
		frontier = nil
		for _, job := range trees {
			below, err := subtree.Below(ctx, b.broker, b.space, job)
			if err != nil {
				return err
			}
			frontier = append(frontier, below...)
		}
		if len(txns) == 0 {
			continue
		}
		for i, r := range b.broker.Commit(ctx, txns...) {
			if r.Err != nil {
				return r.Err
			}
			g.take(ids[i], r.Reads[0], r.Reads[1], b.rules)
			frontier = append(frontier, g.waits[ids[i]]...)
		}
	}
	return nil
}

// take adds what a task waits for now, and what it will wait for once its run has
// ended.
func (g graph) take(id string, task, waiting *broker.KV, rules *Rules) {
	if task == nil {
		return
	}
	now, _ := rules.factsIn(task) // one that cannot be read waits for nothing
	needs := now.Needs
	g.written[id] = task.Modified
	var again coordinator.Requeue
	if waiting != nil && json.Unmarshal(waiting.Value, &again) == nil {
		if then, err := rules.Facts(again.Spec); err == nil {
			needs = append(needs, then.Needs...)
		}
		g.written[id] = max(task.Modified, waiting.Modified)
	}
	g.waits[id] = depend.Blockers(id, needs)
}
