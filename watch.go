package windlass

import (
	"context"
	"fmt"
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

// TaskChange is a task that appeared or changed, or that is gone.
type TaskChange struct {
	Task TaskInfo
	// Gone is true if a task that was selected before was deleted or is no longer
	// selected. Only its ID is set then.
	Gone bool
	// Revision is the store revision at which the watch learned of the change. The data
	// of a task is spread over several prefixes that are watched separately, so
	// revisions may fall from one change to the next.
	Revision int64
}

// WatchTasks yields the selected tasks, sorted by ID, and then every change, until ctx
// is done or the caller stops. Of a task that waits for others, and still does when one of
// them ends, it tells at most once a second. If the broker is unreachable, it yields the error and
// continues once the broker is back; the caller may stop instead.
func (c *Client) WatchTasks(ctx context.Context, f Filter) iter.Seq2[TaskChange, error] {
	return func(yield func(TaskChange, error) bool) {
		w := newTaskWatch(c.space, f)
		c.follow(ctx, w.tasks.sources(), w.later.C, func(u sourced, complete bool) bool {
			switch {
			case u.source == woken:
				return !complete || w.showMoved(yield)
			case u.Err != nil:
				return yield(TaskChange{}, fmt.Errorf("watch tasks: %w", u.Err))
			}
			changed := w.apply(u)
			return !complete || w.show(changed, int64(u.revision()), yield)
		})
	}
}

// follow watches several prefixes and passes their updates to take, one at a time,
// until take returns false or ctx is done. complete is true once each prefix was listed
// in full: a partial picture would show tasks in a wrong state. What wakes it passes an
// update of no prefix.
func (c *Client) follow(ctx context.Context, sources []mirror.Source, wake <-chan time.Time, take func(u sourced, complete bool) bool) {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	updates := make(chan sourced)
	for i, source := range sources {
		source.Broker, source.Reconcile = c.broker, reconcileEvery
		following.Go(func() {
			mirror.Follow(ctx, source, func(u mirror.Update) {
				select {
				case updates <- sourced{Update: u, source: i}:
				case <-ctx.Done():
				}
			})
		})
	}
	seen := map[int]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
			if !take(sourced{source: woken}, len(seen) == len(sources)) {
				return
			}
		case u := <-updates:
			if u.Snapshot != nil {
				seen[u.source] = true
			}
			if !take(u, len(seen) == len(sources)) {
				return
			}
		}
	}
}

// woken is the source of no update.
const woken = -1

// sourced is an update and the index of the watched prefix that it belongs to.
type sourced struct {
	mirror.Update
	source int
}

// revision returns the revision to which the update brings its source.
func (s sourced) revision() broker.Revision {
	if s.Snapshot != nil {
		return s.Snapshot.Revision
	}
	return s.Batch.Revision
}

// taskWatch is the state of a watch. One goroutine calls its methods; others may read
// the index while they hold mu.
type taskWatch struct {
	filter Filter
	// mu is held while the index changes. The goroutine that changes it reads it
	// without mu, except for its fading entries, which others remove as well.
	mu    sync.RWMutex
	tasks *taskIndex
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

func newTaskWatch(space keys.Space, f Filter) *taskWatch {
	tasks := newTaskIndex(space)
	return &taskWatch{
		filter: f, tasks: tasks, shown: map[string]bool{},
		waits: waiting.NewIndex(tasks.tasks), moved: map[string]bool{}, later: time.NewTimer(movedEvery),
	}
}

// fadingMax is how long a task whose keys are gone is still listed as it was, unless
// the states are known up to that revision before: the update with its end may arrive a
// moment later. The state of a deleted task does not change.
const fadingMax = 500 * time.Millisecond

// leave marks tasks whose keys were just deleted as fading, except those that this
// program deleted itself.
func (w *taskWatch) leave(before []TaskInfo, at map[string]broker.Revision) {
	for _, info := range before {
		if r := at[info.ID]; !w.tasks.lists(info.ID) && w.at[stateSource] < r && !w.own(w.tasks.space.Task(info.ID), r) {
			w.tasks.fading[info.ID] = fading{info, r, time.Now().Add(fadingMax)}
		}
	}
}

// left returns the tasks that are no longer fading: they have ended, exist again, or
// are gone.
func (w *taskWatch) left() (gone []string) {
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
func (w *taskWatch) hasAny(keys []string) bool {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return slices.ContainsFunc(keys, w.tasks.has)
}

// deleted records a key that this program deleted: the task is not shown until its
// state is known.
func (w *taskWatch) deleted(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id := w.tasks.space.Parse(key).Name; w.tasks.fading[id].at > 0 {
		w.tasks.fading[id] = fading{}
	}
}

// batch applies changes.
func (w *taskWatch) batch(source int, events []broker.Event) (changed []string) {
	var before []TaskInfo
	at := map[string]broker.Revision{}
	if source == taskSource && w.own != nil {
		for _, e := range events {
			p := w.tasks.space.Parse(e.KV.Key)
			if !e.Deleted || p.Kind != keys.Task && p.Kind != keys.Props {
				continue
			}
			if info, ok := w.tasks.info(p.Name, time.Now()); ok {
				before, at[p.Name] = append(before, info), e.KV.Modified
			}
		}
	}
	for _, e := range events {
		changed = append(changed, w.tasks.set(e))
	}
	w.leave(before, at)
	return changed
}

// apply applies an update and returns the tasks that it may have changed.
func (w *taskWatch) apply(u sourced) (changed []string) {
	switch {
	case u.Snapshot != nil && u.source == taskSource:
		w.mu.Lock()
		changed = w.tasks.tasks.Reset(u.Snapshot)
		w.mu.Unlock()
	case u.Snapshot != nil:
		changed = w.reset(u.source, u.Snapshot)
	default:
		w.mu.Lock()
		changed = w.batch(u.source, u.Batch.Events)
		w.mu.Unlock()
	}
	w.mu.Lock()
	w.at[u.source] = max(w.at[u.source], u.revision())
	changed = append(changed, w.left()...)
	w.mu.Unlock()
	slices.Sort(changed)
	changed = slices.Compact(changed)
	if u.source != taskSource {
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
func (w *taskWatch) reset(source int, listing *mirror.Snapshot) (changed []string) {
	next := newTaskIndex(w.tasks.space)
	next.words, next.values = w.tasks.words, w.tasks.values
	for _, kv := range listing.KVs {
		changed = append(changed, next.set(broker.Event{KV: kv}))
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
func (w *taskWatch) showMoved(yield func(TaskChange, error) bool) bool {
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
func (w *taskWatch) show(changed []string, at int64, yield func(TaskChange, error) bool) bool {
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

func (w *taskWatch) showSome(changed []string, at int64, yield func(TaskChange, error) bool) bool {
	now := time.Now()
	slices.Sort(changed)
	for _, id := range slices.Compact(changed) {
		if id == "" {
			continue // a key that is not ours
		}
		info, ok := w.tasks.info(id, now)
		selected := ok && w.filter.Matches(info)
		if !selected && !w.shown[id] {
			continue
		}
		change := TaskChange{Task: info, Revision: at}
		if !selected {
			change = TaskChange{Task: TaskInfo{ID: id}, Gone: true, Revision: at}
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
func (w *taskWatch) index(id string) {
	var blockers []string
	if t := w.tasks.tasks.Get(id); t != nil {
		blockers = depend.Blockers(id, w.tasks.spec(t).needs)
	}
	w.waits.Put(id, blockers)
}
