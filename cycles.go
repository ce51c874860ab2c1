package windlass

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
	"github.com/windlass-go/windlass/internal/subtree"
)

// refuseCycles refuses the tasks that would wait for themselves, through live tasks or
// tasks of the same call. It returns the others.
func (c *Client) refuseCycles(ctx context.Context, open []*submitting, errs []error) []*submitting {
	g, err := c.graphOf(ctx, open)
	if err != nil {
		for _, s := range open {
			errs[s.index] = fmt.Errorf("submit task %q: %w", s.ID, err)
		}
		return nil
	}
	acyclic := depend.Acyclic(g.waits)
	kept := open[:0]
	cycles := map[string]error{} // by the tasks in them
	for _, s := range open {
		if cycles[s.ID] == nil && !acyclic[s.ID] {
			if path := depend.Cycle(s.ID, func(id string) []string { return g.waits[id] }); path != nil {
				err := leadsBack(path)
				for _, id := range path {
					cycles[id] = err
				}
			}
		}
		if errs[s.index] = cycles[s.ID]; errs[s.index] == nil {
			kept = append(kept, s)
		}
	}
	return kept
}

func leadsBack(path []string) error {
	return badInput("needs", depend.Arrows(path), depend.NoWayBack)
}

// takeBackCycles checks for cycles again after the submission, because two clients can
// each submit one half of a cycle that neither saw before. The client that wrote last
// takes its half back, and what needs it in the same call. None of these tasks has run by
// then: each waits for another.
func (c *Client) takeBackCycles(ctx context.Context, submitted []*submitting, errs []error) {
	g, err := c.graphOf(ctx, submitted)
	acyclic := depend.Acyclic(g.waits)
	slices.SortFunc(submitted, func(a, b *submitting) int { return cmp.Compare(a.written, b.written) })
	var back []*submitting
	why := map[string]error{} // of those to be taken back
	for _, s := range submitted {
		blockers := s.blockers()
		if len(blockers) == 0 || err == nil && acyclic[s.ID] {
			continue
		}
		if err != nil {
			errs[s.index] = fmt.Errorf("submit task %q: it is submitted, and may wait for itself: %w", s.ID, err)
			*s.effect = ""
			continue
		}
		if path := depend.Cycle(s.ID, g.upTo(s.written)); path != nil {
			why[s.ID] = leadsBack(path)
			delete(g.waits, s.ID)
		} else if i := slices.IndexFunc(blockers, func(need string) bool { return isUnmet(need, why) }); i >= 0 {
			why[s.ID] = unmetNeed(s.ID, blockers[i], nil)
		} else {
			continue
		}
		back = append(back, s)
	}
	for _, s := range slices.Backward(back) { // what needs another before that, or it would run
		if errs[s.index] = c.takeBack(ctx, s, why[s.ID]); errs[s.index] != nil {
			*s.effect = ""
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
func (c *Client) takeBack(ctx context.Context, s *submitting, why error) error {
	if s.replacing() && s.before == nil {
		return fmt.Errorf("%w; it is submitted, and what was there before is not known any more", why)
	}
	txn := broker.Txn{If: []broker.Cond{broker.Modified(c.space.Task(s.ID), s.written)}}
	switch {
	case s.held != 0:
		txn.If = []broker.Cond{broker.Modified(c.space.Requeue(s.ID), s.written)}
	case s.updates == nil || s.Spec.Job:
		txn.If = append(txn.If, broker.Absent(c.space.Owner(s.ID)))
	}
	for i, key := range c.replacedBy(s) {
		op := broker.Delete(key)
		if s.before != nil && s.before[i] != nil {
			op = broker.Put(key, s.before[i].Value)
		}
		txn.Then = append(txn.Then, op)
	}
	r, maybe, err := attempts.Commit(ctx, c.broker, txn)
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
func (c *Client) graphOf(ctx context.Context, some []*submitting) (graph, error) {
	g := graph{waits: map[string][]string{}, written: map[string]broker.Revision{}}
	var frontier []string
	for _, s := range some {
		frontier = append(frontier, s.blockers()...)
	}
	if len(frontier) == 0 {
		return g, nil
	}
	for _, s := range some {
		g.waits[s.ID], g.written[s.ID] = s.blockers(), s.written
	}
	err := c.readGraph(ctx, g, frontier)
	depend.AddTrees(g.waits)
	return g, err
}

// graphMax limits the tasks that a cycle check reads.
const graphMax = 100_000

// readGraph reads, level by level, what the live tasks of the frontier wait for.
func (c *Client) readGraph(ctx context.Context, g graph, frontier []string) error {
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
				txns = append(txns, broker.Txn{Then: []broker.Op{broker.Read(c.space.Task(id)), broker.Read(c.space.Requeue(id))}})
			}
		}
		if read := len(g.waits) - known; read > graphMax {
			return badInput("needs", fmt.Sprintf("%d tasks", read), fmt.Sprintf("must not lead to more than %d tasks", graphMax))
		}
		frontier = nil
		for _, job := range trees {
			below, err := subtree.Below(ctx, c.broker, c.space, job)
			if err != nil {
				return err
			}
			frontier = append(frontier, below...)
		}
		if len(txns) == 0 {
			continue
		}
		for i, r := range c.broker.Commit(ctx, txns...) {
			if r.Err != nil {
				return r.Err
			}
			g.take(ids[i], r.Reads[0], r.Reads[1])
			frontier = append(frontier, g.waits[ids[i]]...)
		}
	}
	return nil
}

// take adds what a task waits for now, and what it will wait for once its run has
// ended.
func (g graph) take(id string, task, waiting *broker.KV) {
	if task == nil {
		return
	}
	needs := needsOf(task.Value)
	g.written[id] = task.Modified
	var again coordinator.Requeue
	if waiting != nil && json.Unmarshal(waiting.Value, &again) == nil {
		needs = append(needs, needsOf(again.Spec)...)
		g.written[id] = max(task.Modified, waiting.Modified)
	}
	g.waits[id] = depend.Blockers(id, needs)
}

// needsOf returns the needs in a spec, nil if it cannot be read.
func needsOf(spec []byte) []string {
	s, err := parseSpec(spec)
	if err != nil {
		return nil
	}
	return s.Needs
}
