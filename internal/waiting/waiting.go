// Package waiting tells who watches tasks which of those that wait for others he has to look
// at again. A task may wait for ten thousand: the end of one of them says nearly nothing new
// about it, and looking at all ten thousand each time would take a time that grows with their
// square.
package waiting

import (
	"math/rand/v2"

	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
)

// Index has the tasks that wait for others. It is not safe for concurrent use.
type Index struct {
	tasks   *mirror.Tasks
	waiters map[string]*waiter
	// by is the reverse: which tasks have a blocker.
	by map[string]map[string]bool
	// stands is how needed tasks were when they were looked at last. What is not in it was
	// not looked at.
	stands map[string]standing
}

// waiter is a task with blockers.
type waiter struct {
	blockers []string
	// at is a blocker that blocked when that was looked at last, and waits is false if none
	// did. As at begins anywhere, whichever order the blockers end in, it moves about ln(n)
	// times until n have.
	at    int
	waits bool
}

// standing is what a task is to those that wait for it.
type standing struct{ blocks, failed bool }

// NewIndex returns an empty index of the tasks of a copy.
func NewIndex(tasks *mirror.Tasks) *Index {
	return &Index{tasks: tasks, waiters: map[string]*waiter{}, by: map[string]map[string]bool{}, stands: map[string]standing{}}
}

// Put records what a task may have to wait for, in place of what was recorded before; nothing
// removes it.
func (x *Index) Put(id string, blockers []string) {
	if w := x.waiters[id]; w != nil {
		for _, blocker := range w.blockers {
			if delete(x.by[blocker], id); len(x.by[blocker]) == 0 {
				delete(x.by, blocker)
			}
		}
		delete(x.waiters, id)
	}
	if len(blockers) == 0 {
		return
	}
	for _, blocker := range blockers {
		if x.by[blocker] == nil {
			x.by[blocker] = map[string]bool{}
		}
		x.by[blocker][id] = true
	}
	w := &waiter{blockers: blockers, at: rand.IntN(len(blockers))}
	w.waits = x.look(w)
	x.waiters[id] = w
}

// look reports whether a task still waits.
func (x *Index) look(w *waiter) bool {
	for range w.blockers {
		if kind.Blocks(w.blockers[w.at], x.tasks) {
			return true
		}
		w.at = (w.at + 1) % len(w.blockers)
	}
	return false
}

// LookAgain takes tasks that have changed. It returns those that wait for others since then or
// no longer do, and those that still wait, but not for the same, or not as before: one of
// their needs has ended, failed or come back.
func (x *Index) LookAgain(changed []string) (turned, moved []string) {
	if len(x.waiters) == 0 {
		clear(x.stands)
		return nil, nil
	}
	seen := map[string]bool{}
	for _, id := range changed {
		if !x.stood(id) {
			continue
		}
		for _, need := range depend.NeededAs(id) {
			for waits := range x.by[need] {
				seen[waits] = true
			}
		}
	}
	for id := range seen {
		w := x.waiters[id]
		waited := w.waits
		switch w.waits = x.look(w); {
		case w.waits != waited:
			turned = append(turned, id)
		case w.waits:
			moved = append(moved, id)
		}
	}
	return turned, moved
}

// stood reports whether a task is needed, and may be another to those that wait for it than
// when it was looked at last.
func (x *Index) stood(id string) bool {
	t := x.tasks.Remains(id)
	now := standing{blocks: t.Blocks(), failed: t != nil && t.Failed != mirror.NotFailed && !t.HasKey}
	before, known := x.stands[id]
	if delete(x.stands, id); !x.needed(id) {
		return false
	}
	if now != (standing{}) {
		x.stands[id] = now
	}
	return !known || now != before
}

func (x *Index) needed(id string) bool {
	for _, need := range depend.NeededAs(id) {
		if len(x.by[need]) > 0 {
			return true
		}
	}
	return false
}
