package windlass

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// TaskCopy is a copy of what is listed of the tasks of a namespace, in memory. It is for
// servers: clients with the option WithTaskCopy answer lists from it, which otherwise
// read all tasks each time, however few of them they show. Its methods are safe for
// concurrent use.
//
// It is kept up while its Watch goes on. It is behind the broker by as much as a watch
// is, which is milliseconds, and up to broker.ProgressMax while the broker does not
// answer. What was written through its Broker is in every list that begins afterwards.
// While it is not kept up, or lags, lists are read from the broker, one at a time.
type TaskCopy struct {
	client *Client
	writes *noticedWrites
	// reading is held by who reads all tasks from the broker.
	reading chan struct{}

	mu sync.Mutex
	// watch has the copy, nil while it is not complete or not kept up.
	watch *taskWatch
	ids   *sortedIDs
}

// NewTaskCopy returns a copy that is not kept up yet. An empty namespace is
// NamespaceDefault. It does not close the broker.
func NewTaskCopy(b broker.Broker, namespace string) (*TaskCopy, error) {
	client, err := NewClient(b, namespace)
	if err != nil {
		return nil, err
	}
	return &TaskCopy{client: client, writes: noticeWrites(b, newBoard(client.space)), reading: make(chan struct{}, 1)}, nil
}

// WithTaskCopy has a client answer lists of tasks from a copy of its namespace.
func WithTaskCopy(t *TaskCopy) ClientOption { return func(c *Client) { c.copy = t } }

// Broker is the broker of the copy, which takes notice of what is written through it.
func (t *TaskCopy) Broker() broker.Broker { return t.writes }

// catchUpMax bounds how long a list waits until what was written before it is in the copy.
const catchUpMax = time.Second

// Watch keeps the copy up while it is iterated, by one caller at a time, and yields what
// Client.WatchTasks yields for all tasks.
func (t *TaskCopy) Watch(ctx context.Context) iter.Seq2[TaskChange, error] {
	return func(yield func(TaskChange, error) bool) {
		w, ids := newTaskWatch(t.client.space, Filter{}), &sortedIDs{known: map[string]bool{}}
		w.own = t.writes.own
		t.writes.follow(w)
		defer t.writes.follow(nil)
		defer t.use(nil, nil)
		var troubled [sourceCount]bool
		t.client.follow(ctx, w.board.sources(), func(u sourced, complete bool) bool {
			if troubled[u.source] = u.Err != nil; u.Err != nil {
				t.use(nil, nil) // who lists now is to hear from the broker what the trouble is
				return yield(TaskChange{}, fmt.Errorf("watch tasks: %w", u.Err))
			}
			changed := w.apply(u)
			w.mu.RLock()
			ids.take(w.board, changed)
			w.mu.RUnlock()
			t.writes.arrived(u)
			if !complete {
				return true
			}
			if troubled == [sourceCount]bool{} {
				t.use(w, ids)
			}
			return w.show(changed, int64(u.revision()), yield)
		})
	}
}

func (t *TaskCopy) use(w *taskWatch, ids *sortedIDs) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watch, t.ids = w, ids
}

// Count counts the tasks by status, all of them named; nil while the copy is not kept up.
func (t *TaskCopy) Count() map[Status]int {
	t.mu.Lock()
	w, ids := t.watch, t.ids
	t.mu.Unlock()
	if w == nil {
		return nil
	}
	counts := make(map[Status]int, len(Statuses))
	for _, s := range Statuses {
		counts[s] = 0
	}
	sorted := ids.sorted()
	w.mu.RLock()
	defer w.mu.RUnlock()
	w.board.each(sorted, Filter{}, func(info TaskInfo) bool {
		counts[info.Status]++
		return true
	})
	return counts
}

// each hands the selected tasks to take, by ID, until it returns false. It returns false
// itself where the copy is not there, or not as new as it should be.
func (t *TaskCopy) each(ctx context.Context, f Filter, take func(TaskInfo) bool) bool {
	if !t.writes.wait(ctx, catchUpMax) {
		return false
	}
	t.mu.Lock()
	w, ids := t.watch, t.ids
	t.mu.Unlock()
	if w == nil {
		return false
	}
	sorted := ids.sorted()
	w.mu.RLock()
	defer w.mu.RUnlock()
	w.board.each(sorted, f, take)
	return true
}

// alone waits until nobody else reads all tasks from the broker, and returns how to say
// that this reading is over.
func (t *TaskCopy) alone(ctx context.Context) (over func(), err error) {
	select {
	case t.reading <- struct{}{}:
		return func() { <-t.reading }, nil
	case <-ctx.Done():
		return nil, broker.NewError("list", t.client.space.Tasks(), broker.ErrUnavailable, ctx.Err())
	}
}

// sortedIDs has the IDs of a board in order. They are sorted when somebody asks: many
// tasks can come between two lists.
type sortedIDs struct {
	mu    sync.Mutex
	known map[string]bool
	// ids were right at some time, and are not changed any more; since are those that
	// came after that, and gone tells that some have gone.
	ids, since []string
	gone       bool
}

// take takes notice of tasks that may have come or gone.
func (s *sortedIDs) take(b *board, changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range changed {
		switch listed := b.lists(id); {
		case listed && !s.known[id]:
			s.known[id] = true
			s.since = append(s.since, id)
		case !listed && s.known[id]:
			delete(s.known, id)
			s.gone = true
		}
	}
}

// sorted are the IDs in order. They must not be changed.
func (s *sortedIDs) sorted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.since) == 0 && !s.gone {
		return s.ids
	}
	slices.Sort(s.since)
	before, since := s.ids, s.since
	merged := make([]string, 0, len(s.known))
	for len(before) > 0 || len(since) > 0 {
		from := &before
		if len(before) == 0 || len(since) > 0 && since[0] < before[0] {
			from = &since
		}
		id := (*from)[0]
		*from = (*from)[1:]
		if s.known[id] && (len(merged) == 0 || merged[len(merged)-1] != id) {
			merged = append(merged, id)
		}
	}
	s.ids, s.since, s.gone = merged, nil, false
	return s.ids
}
