package windlass

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/depend"
)

// refuseCycles refuses the tasks that would wait for themselves, through tasks
// of the same call or live ones, and returns the others.
func (c *Client) refuseCycles(ctx context.Context, open []*submitting, errs []error) []*submitting {
	waits := map[string][]string{}
	var frontier []string
	for _, s := range open {
		if blockers := depend.Blockers(s.ID, s.Spec.Needs); len(blockers) > 0 {
			waits[s.ID] = blockers
			frontier = append(frontier, blockers...)
		}
	}
	if len(frontier) == 0 {
		return open
	}
	if err := c.readWaits(ctx, waits, frontier); err != nil {
		for _, s := range open {
			errs[s.index] = fmt.Errorf("submit task %q: %w", s.ID, err)
		}
		return nil
	}
	kept := open[:0]
	for _, s := range open {
		if path := cycle(waits, s.ID); path != nil {
			errs[s.index] = badInput("needs", fmt.Sprintf("%q", path), "must not lead back to the task itself")
			continue
		}
		kept = append(kept, s)
	}
	return kept
}

// graphMax bounds the tasks that a check for cycles reads.
const graphMax = 100_000

// readWaits fills in, level by level, what the live tasks of the frontier wait
// for.
func (c *Client) readWaits(ctx context.Context, waits map[string][]string, frontier []string) error {
	for len(frontier) > 0 {
		var txns []broker.Txn
		var ids []string
		for _, id := range frontier {
			if _, known := waits[id]; !known {
				waits[id] = nil
				ids = append(ids, id)
				txns = append(txns, broker.Txn{Then: []broker.Op{broker.Read(c.space.Task(id)), broker.Read(c.space.Requeue(id))}})
			}
		}
		if len(waits) > graphMax {
			return badInput("needs", fmt.Sprintf("%d tasks", len(waits)), fmt.Sprintf("must not lead to more than %d tasks", graphMax))
		}
		frontier = nil
		if len(txns) == 0 {
			return nil
		}
		for i, r := range c.broker.Commit(ctx, txns...) {
			if r.Err != nil {
				return r.Err
			}
			if r.Reads[0] == nil {
				continue
			}
			needs := needsOf(r.Reads[0].Value)
			var again coordinator.Requeue
			if r.Reads[1] != nil && json.Unmarshal(r.Reads[1].Value, &again) == nil {
				needs = append(needs, needsOf(again.Spec)...)
			}
			waits[ids[i]] = depend.Blockers(ids[i], needs)
			frontier = append(frontier, waits[ids[i]]...)
		}
	}
	return nil
}

// needsOf are the needs that a spec names, none if it cannot be read.
func needsOf(spec []byte) []string {
	s, err := parseSpec(spec)
	if err != nil {
		return nil
	}
	return s.Needs
}

// cycle returns a path from a task back to itself, nil if there is none.
func cycle(waits map[string][]string, start string) []string {
	came := map[string]string{}
	stack := []string{start}
	for len(stack) > 0 {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, next := range waits[at] {
			if next == start {
				path := []string{start}
				for ; at != start; at = came[at] {
					path = append(path, at)
				}
				return append(path, start)
			}
			if _, seen := came[next]; !seen {
				came[next] = at
				stack = append(stack, next)
			}
		}
	}
	return nil
}
