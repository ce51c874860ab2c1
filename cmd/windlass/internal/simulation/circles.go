package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/windlass-go/windlass"
)

// circlesMax bounds the circles of a run.
const circlesMax = 10

// submitCircle now and then has clients submit tasks at once that need each other in a
// circle, each client a part of it.
func (w *world) submitCircle() {
	if w.besides.IntN(20) > 0 || w.circled == circlesMax {
		return
	}
	w.circled++
	ids := make([]string, 2+w.besides.IntN(2))
	for i := range ids {
		ids[i] = fmt.Sprintf("r%d-%d", w.circled, i)
	}
	errs := make([]error, len(ids))
	var all sync.WaitGroup
	for i, id := range ids {
		w.log.Deleting(id) // as who closes the circle takes theirs back
		s := windlass.Submission{ID: id, Spec: windlass.Spec{Needs: []string{ids[(i+1)%len(ids)]}}}
		client := []*windlass.Client{w.client, w.operator}[i%2]
		all.Go(func() {
			errs[i] = w.attempt(func(ctx context.Context) error { return client.Submit(ctx, s) })
		})
	}
	all.Wait()
	for i, id := range ids {
		if errs[i] == nil || windlass.AlreadySubmitted(errs[i]) {
			w.expected[id] = true
		}
	}
	w.count("tasks that need each other submitted at once")
}

// circular names tasks that were all acknowledged, and wait for each other (Z12).
func (w *world) circular() string {
	w.logMu.Lock()
	defer w.logMu.Unlock()
	for id := range w.expected {
		if path := w.leadsBack([]string{id}); path != nil {
			return fmt.Sprintf("Z12: %q wait for each other", path)
		}
	}
	return ""
}

// leadsBack goes on from the end of a path to what is waited for there, and returns the
// path that comes back to its beginning, nil for none.
func (w *world) leadsBack(path []string) []string {
	for _, b := range w.log.Blockers(path[len(path)-1]) {
		switch {
		case !b.Exists || !w.expected[b.ID]:
		case b.ID == path[0]:
			return path
		case !slices.Contains(path, b.ID):
			if found := w.leadsBack(append(path, b.ID)); found != nil {
				return found
			}
		}
	}
	return nil
}
