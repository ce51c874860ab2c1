package listing

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/waiting"
)

// Change is a task that appeared or changed, or that is gone.
type Change struct {
	Task Task
	// Gone is true if a task that was selected before was deleted or is no longer
	// selected. Only its ID is set then.
	Gone bool
	// Revision is the store revision at which the watch learned of the change.
	Revision int64
}

// Watch yields the selected tasks, sorted by ID, and then every change, until ctx is done or the caller stops. Of a task
// that waits for others, and still does when one of them ends, it tells at most once a second. It yields the errors of
// the broker and goes on once that is back.
func Watch(ctx context.Context, b broker.Broker, space keys.Space, read Read, selects func(*Task) bool) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		w := newWatch(space, read, selects)
		mirror.FollowAll(ctx, b, w.tasks.sources(), w.later.C, func(u mirror.Sourced, complete bool) bool {
			switch {
			case u.Source == mirror.Woken:
				return !complete || w.showMoved(yield)
			case u.Err != nil:
				return yield(Change{}, u.Err)
			}
			changed := w.apply(u)
			return !complete || w.show(changed, int64(u.Revision()), yield)
		})
	}
}

// watch is the state of a watch. One goroutine calls its methods; others may read
// the index while they hold mu.
type watch struct {
	selects func(*Task) bool
	// mu is held while the index changes. The goroutine that changes it reads it
	// without mu, except for its fading entries, which others remove as well.
	mu    sync.RWMutex
	tasks *Index
	// at is the revision up to which each source is known.
	at [sourceCount]broker.Revision
	// own, if set, reports whether this program deleted a key at a revision. It is set
	// where lists are answered from the index.
	own func(key string, at broker.Revision) bool
	// shown has the tasks that the caller has seen and that are not gone.
	shown map[string]bool
	// begun is true once the caller has seen everything.
	begun bool
	waits *waiting.Index
	// moved has the tasks that wait for less, or for others, than was shown of them. They
	// are shown again together, when later fires.
	moved map[string]bool
	later *time.Timer
	// movedAt is when that was done last.
	movedAt time.Time
}

func newWatch(space keys.Space, read Read, selects func(*Task) bool) *watch {
	tasks := NewIndex(space, read)
	return &watch{
		selects: selects, tasks: tasks, shown: map[string]bool{},
		waits: waiting.NewIndex(tasks.tasks), moved: map[string]bool{}, later: time.NewTimer(movedEvery),
	}
}

// fadingMax is how long a task whose keys are gone is still listed as it was, unless
// the states are known up to that revision before: the update with its end may arrive a
// moment later. The state of a deleted task does not change.
const fadingMax = 500 * time.Millisecond

// leave marks tasks whose keys were just deleted as fading, except those that this
// program deleted itself.
func (w *watch) leave(before []Task, at map[string]broker.Revision) {
	for _, task := range before {
		if r := at[task.ID]; !w.tasks.lists(task.ID) && w.at[stateSource] < r && !w.own(w.tasks.space.Task(task.ID), r) {
			w.tasks.fading[task.ID] = fading{task, r, time.Now().Add(fadingMax)}
		}
	}
}

// left returns the tasks that are no longer fading: they have ended, exist again, or
// are gone.
func (w *watch) left() (gone []string) {
	now := time.Now()
	for id, l := range w.tasks.fading {
		if w.at[stateSource] >= l.at || !now.Before(l.until) || w.tasks.tasks.Get(id) != nil {
			delete(w.tasks.fading, id)
			gone = append(gone, id)
		}
	}
	return gone
}

// hasAny reports whether the index has any of some keys.
func (w *watch) hasAny(keys []string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return slices.ContainsFunc(keys, w.tasks.has)
}

// deleted records a key that this program deleted: the task is not shown until its
// state is known.
func (w *watch) deleted(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id := w.tasks.space.Parse(key).Name; w.tasks.fading[id].at > 0 {
		w.tasks.fading[id] = fading{}
	}
}

// batch applies changes.
func (w *watch) batch(source int, events []broker.Event) (changed []string) {
	var before []Task
	at := map[string]broker.Revision{}
	if source == taskSource && w.own != nil {
		for _, e := range events {
			p := w.tasks.space.Parse(e.KV.Key)
			if !e.Deleted || p.Kind != keys.Task && p.Kind != keys.Props {
				continue
			}
			if task, ok := w.tasks.Task(p.Name, time.Now()); ok {
				before, at[p.Name] = append(before, task), e.KV.Modified
			}
		}
	}
	for _, e := range events {
		changed = append(changed, w.tasks.Set(e))
	}
	w.leave(before, at)
	return changed
}

// apply applies an update and returns the tasks that it may have changed.
func (w *watch) apply(u mirror.Sourced) (changed []string) {
	switch {
	case u.Snapshot != nil && u.Source == taskSource:
		w.mu.Lock()
		changed = w.tasks.tasks.Reset(u.Snapshot)
		w.mu.Unlock()
	case u.Snapshot != nil:
		changed = w.reset(u.Source, u.Snapshot)
	default:
		w.mu.Lock()
		changed = w.batch(u.Source, u.Batch.Events)
		w.mu.Unlock()
	}
	w.mu.Lock()
	w.at[u.Source] = max(w.at[u.Source], u.Revision())
	changed = append(changed, w.left()...)
	w.mu.Unlock()
	slices.Sort(changed)
	changed = slices.Compact(changed)
	if u.Source != taskSource {
		return changed
	}
	for _, id := range changed {
		w.index(id)
	}
	turned, moved := w.waits.LookAgain(changed)
	for _, id := range moved {
		w.moved[id] = true
	}
	return append(changed, turned...)
}

// reset applies a listing of the claims or of the states. It parses the listing before
// it locks the index.
func (w *watch) reset(source int, listing *mirror.Snapshot) (changed []string) {
	next := NewIndex(w.tasks.space, w.tasks.read)
	next.words, next.values = w.tasks.words, w.tasks.values
	for _, kv := range listing.KVs {
		changed = append(changed, next.Set(broker.Event{KV: kv}))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if source == claimSource {
		changed = slices.AppendSeq(changed, maps.Keys(w.tasks.claimed))
		w.tasks.claimed = next.claimed
	} else {
		changed = slices.AppendSeq(changed, maps.Keys(w.tasks.states))
		w.tasks.states = next.states
	}
	return changed
}

// Tasks that still wait, but for less than before, are shown again at most every movedEvery,
// and movedMost of them at a time: ten thousand needs may end within seconds, and ten thousand
// tasks may have them.
const (
	movedEvery = time.Second
	movedMost  = 1000
)

// showMoved yields tasks that wait for less than was shown of them, and says when it is to be
// called again.
func (w *watch) showMoved(yield func(Change, error) bool) bool {
	var some []string
	for id := range w.moved {
		if len(some) == movedMost {
			break
		}
		some = append(some, id)
		delete(w.moved, id)
	}
	w.movedAt = time.Now()
	if len(w.moved) > 0 {
		w.later.Reset(movedEvery)
	}
	return w.showSome(some, int64(w.at[taskSource]), yield)
}

// show yields the changed tasks, and now or later those that wait for them.
func (w *watch) show(changed []string, at int64, yield func(Change, error) bool) bool {
	if !w.begun {
		w.begun = true
		clear(w.moved)
		changed = slices.Collect(w.tasks.ids())
	}
	if !w.showSome(changed, at, yield) {
		return false
	}
	if len(w.moved) == 0 {
		return true
	}
	wait := movedEvery - time.Since(w.movedAt)
	if wait <= 0 {
		return w.showMoved(yield)
	}
	w.later.Reset(wait)
	return true
}

func (w *watch) showSome(changed []string, at int64, yield func(Change, error) bool) bool {
	now := time.Now()
	slices.Sort(changed)
	for _, id := range slices.Compact(changed) {
		if id == "" {
			continue // a key that is not ours
		}
		task, ok := w.tasks.Task(id, now)
		selected := ok && w.selects(&task)
		if !selected && !w.shown[id] {
			continue
		}
		change := Change{Task: task, Revision: at}
		if !selected {
			change = Change{Task: Task{ID: id}, Gone: true, Revision: at}
			delete(w.shown, id)
		} else {
			w.shown[id] = true
		}
		if !yield(change, nil) {
			return false
		}
	}
	return true
}

// index records what a task waits for, which may have changed.
func (w *watch) index(id string) {
	var blockers []string
	if t := w.tasks.tasks.Get(id); t != nil {
		blockers = depend.Blockers(id, w.tasks.spec(t).Needs)
	}
	w.waits.Put(id, blockers)
}
