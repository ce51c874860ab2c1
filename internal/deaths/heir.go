package deaths

import (
	"maps"
	"slices"
	"time"

	"github.com/windlass-go/windlass/internal/mirror"
)

// heir is what a process leaves alone that follows a dead one under its name: all tasks whose
// last owner is not known, as the dead process may have run them. The record of its death says
// who is suspected.
type heir struct {
	of    string // the incarnation that died
	until time.Time
	tasks map[string]bool
}

// Inherit notes that this process has followed a dead one under its name.
func (w *Watcher) Inherit(incarnation string, now time.Time) {
	w.heir = &heir{of: incarnation, until: now.Add(recordedWithin), tasks: map[string]bool{}}
}

// Inherits returns until when a task without an owner is not to be claimed, because the process
// may have run it that died under this node's name; zero if that is settled.
func (w *Watcher) Inherits(t *mirror.Task, recorded func(incarnation string) bool, now time.Time) time.Time {
	h := w.heir
	switch {
	case h == nil || t.Last != "" || recorded(h.of):
		return time.Time{}
	case !now.Before(h.until):
		w.heir = nil
		return time.Time{}
	}
	h.tasks[t.ID] = true
	return h.until
}

// Inherited returns, once, the tasks that were left alone, when it is known who is suspected.
func (w *Watcher) Inherited(recorded func(incarnation string) bool) (tasks []string) {
	if w.heir == nil || !recorded(w.heir.of) {
		return nil
	}
	tasks, w.heir = slices.Collect(maps.Keys(w.heir.tasks)), nil
	return tasks
}
