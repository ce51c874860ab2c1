package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/meter"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

// ErrNeeded matches a *NeededError.
var ErrNeeded = errors.New("live tasks wait for it")

// NeededError says that a task is not deleted because live tasks wait for it.
type NeededError struct {
	ID string
	// By has the first tasks that wait for it, at most neededShownMax of Number.
	By     []string
	Number int
}

const neededShownMax = 3

// Error implements error.
func (e *NeededError) Error() string {
	shown := strings.Join(e.By, ", ")
	if more := e.Number - len(e.By); more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("task %q is not deleted: %d live task(s) wait for it and may then run: %s; unblock deletes it all the same, and kill with dependents ends it and them", e.ID, e.Number, shown)
}

// Is reports whether target is ErrNeeded.
func (e *NeededError) Is(target error) bool { return target == ErrNeeded }

// waiting is which live tasks there are, and for which tasks each waits.
type waiting map[string][]string

// listWaiting reads it in one listing.
func listWaiting(ctx context.Context, c *windlass.Client) (waiting, error) {
	tasks, err := c.Tasks(ctx, windlass.Filter{Statuses: view.Live, AllBlockers: true})
	if err != nil {
		return nil, err
	}
	w := make(waiting, len(tasks))
	for _, t := range tasks {
		w[t.ID] = t.BlockedBy
	}
	return w, nil
}

// dependents returns which tasks wait for each task, sorted.
func (w waiting) dependents() map[string][]string {
	all := map[string][]string{}
	for _, id := range slices.Sorted(maps.Keys(w)) {
		for _, need := range w[id] {
			all[need] = append(all[need], id)
		}
	}
	return all
}

// of returns which tasks wait for one, given the dependents by their needs.
func of(dependents map[string][]string, id string) (by []string) {
	for _, need := range depend.NeededAs(id) {
		by = append(by, dependents[need]...)
	}
	slices.Sort(by)
	return slices.Compact(by)
}

// removedBetween is how many tasks are deleted between two reports of how far it has come.
const removedBetween = 500

// remove deletes tasks, what waits before what it waits for. A task for which others wait that
// stay is refused, unless these may run.
func remove(ctx context.Context, c *windlass.Client, ids []string, unblock bool) []error {
	errs := make([]error, len(ids))
	if unblock && len(ids) == 1 { // neither refused nor in an order: thousands of live tasks need not be listed
		errs[0] = c.Delete(ctx, ids[0])
		return errs
	}
	w, err := listWaiting(ctx, c)
	if err != nil {
		for i, id := range ids {
			errs[i] = fmt.Errorf("delete task %q: list what waits for it: %w", id, err)
		}
		return errs
	}
	dependents, gone, done := w.dependents(), map[string]bool{}, 0
	for _, level := range w.levels(ids) {
		for _, i := range level {
			by := slices.DeleteFunc(of(dependents, ids[i]), func(id string) bool { return gone[id] })
			if _, live := w[ids[i]]; live && len(by) > 0 && !unblock {
				errs[i] = &NeededError{ID: ids[i], By: by[:min(len(by), neededShownMax)], Number: len(by)}
			}
		}
		for part := range slices.Chunk(level, removedBetween) {
			var open []int
			var some []string
			for _, i := range part {
				if errs[i] == nil {
					open, some = append(open, i), append(some, ids[i])
				}
			}
			for n, err := range c.DeleteAll(ctx, some...) {
				errs[open[n]] = err
			}
			done += len(part)
			meter.Set(ctx, done)
		}
		for _, i := range level {
			gone[ids[i]] = gone[ids[i]] || errs[i] == nil
		}
	}
	return errs
}

// killBelow kills tasks and all that hangs below them, what waits before what it waits for:
// a task whose failure lets others run would release them otherwise. The tasks come first
// among the results.
func killBelow(ctx context.Context, c *windlass.Client, command statemachine.Command, ids []string) []*Result {
	w, err := listWaiting(ctx, c)
	if err != nil {
		all := make([]*Result, len(ids))
		for i, id := range ids {
			all[i] = &Result{CommandResult: view.CommandResult{ID: id, Message: command.Message}}
			all[i].Fail(fmt.Errorf("kill task %q: list what hangs below it: %w", id, err))
		}
		return all
	}
	ids = slices.Concat(ids, w.below(ids))
	all := make([]*Result, len(ids))
	for _, level := range w.levels(ids) {
		some := make([]string, len(level))
		for n, i := range level {
			some[n] = ids[i]
		}
		for n, result := range send(ctx, c, command, some) {
			all[level[n]] = result
		}
	}
	return all
}

// below returns the live tasks that hang below some tasks: those that wait for them, those
// that wait for these, and so on, and all jobs below them in the tree. They are sorted.
func (w waiting) below(ids []string) []string {
	dependents := map[string][]string{}
	for id, needs := range w {
		for _, need := range slices.Concat(needs, depend.Ancestors(id)) {
			dependents[need] = append(dependents[need], id)
		}
	}
	seen, open := map[string]bool{}, slices.Clone(ids)
	for _, id := range ids {
		seen[id] = true
	}
	var found []string
	for len(open) > 0 {
		id := open[len(open)-1]
		open = open[:len(open)-1]
		for _, next := range of(dependents, id) {
			if !seen[next] {
				seen[next] = true
				open, found = append(open, next), append(found, next)
			}
		}
	}
	slices.Sort(found)
	return found
}

// levels returns indexes of tasks in the order in which they are to end, so that the end of
// none releases another: what waits comes before what it waits for. Tasks that wait for
// themselves come last, as nothing releases them.
func (w waiting) levels(ids []string) (levels [][]int) {
	waits := func(i int) []string { return slices.Concat(w[ids[i]], depend.Ancestors(ids[i])) }
	order, placed := depend.NewTogether(ids, waits), map[int]bool{}
	for next := order.Next(len(ids)); len(next) > 0; next = order.Next(len(ids)) {
		levels = append(levels, next)
		for _, i := range next {
			placed[i] = true
			order.Stored(i)
		}
	}
	slices.Reverse(levels)
	var left []int
	for i := range ids {
		if !placed[i] {
			left = append(left, i)
		}
	}
	if len(left) > 0 {
		levels = append(levels, left)
	}
	return levels
}

// Dependents returns the live tasks that hang below some tasks, sorted: what waits for them,
// for these, and so on, and all jobs below them in the tree.
func Dependents(ctx context.Context, c *windlass.Client, ids []string) ([]string, error) {
	w, err := listWaiting(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("list what waits: %w", err)
	}
	return w.below(ids), nil
}
