package simulation

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/windlass-go/windlass"
)

// circlesMax limits the cycles of a run.
const circlesMax = 10

// submitCircle sometimes submits tasks that need each other in a cycle, at once and
// through two clients.
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
		w.log.Deleting(id) // the client that closes the cycle deletes its task again
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

// circular reports acknowledged tasks that wait for each other (Z12).
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

// leadsBack extends a path by the tasks that its last one waits for, and returns a path
// that leads back to its beginning, nil for none.
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
