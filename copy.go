package windlass

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// TaskCopy is an in-memory copy of the listed data of a namespace's tasks. It is meant
// for servers: clients with the option WithTaskCopy answer lists from it. Other clients
// read all tasks for every list, however few of them they return. Its methods are safe
// for concurrent use.
//
// The copy is kept current while its Watch runs. It lags behind the broker by as much
// as a watch does: milliseconds, and up to broker.ProgressMax while the broker does not
// answer. A write through its Broker is in every list that begins afterwards. While the
// copy is not kept current, or lags, lists are read from the broker, one at a time.
type TaskCopy struct {
	client *Client
	writes *noticedWrites
	// reading is held while all tasks are read from the broker.
	reading chan struct{}

	mu sync.Mutex
	// watch has the copy, nil while it is incomplete or not kept current.
	watch *taskWatch
	ids   *sortedIDs
}

// NewTaskCopy returns a copy that is not kept current until Watch is called. An empty
// namespace means NamespaceDefault. The copy does not close the broker.
func NewTaskCopy(b broker.Broker, namespace string) (*TaskCopy, error) {
	client, err := NewClient(b, namespace)
	if err != nil {
		return nil, err
	}
	return &TaskCopy{client: client, writes: noticeWrites(b, newTaskIndex(client.space)), reading: make(chan struct{}, 1)}, nil
}

// WithTaskCopy makes a client answer lists of tasks from a copy of its namespace.
func WithTaskCopy(t *TaskCopy) ClientOption { return func(c *Client) { c.copy = t } }

// Broker returns the copy's broker, which keeps track of what is written through it.
func (t *TaskCopy) Broker() broker.Broker { return t.writes }

// catchUpMax limits how long a list waits for earlier writes to reach the copy.
const catchUpMax = time.Second

// Watch keeps the copy current while the caller iterates over it, one caller at a time.
// It yields what Client.WatchTasks yields for all tasks.
func (t *TaskCopy) Watch(ctx context.Context) iter.Seq2[TaskChange, error] {
	return func(yield func(TaskChange, error) bool) {
		w, ids := newTaskWatch(t.client.space, Filter{}), &sortedIDs{known: map[string]bool{}}
		w.own = t.writes.own
		t.writes.follow(w)
		defer t.writes.follow(nil)
		defer t.use(nil, nil)
		var troubled [sourceCount]bool
		t.client.follow(ctx, w.tasks.sources(), w.later.C, func(u sourced, complete bool) bool {
			if u.source == woken {
				return !complete || w.showMoved(yield)
			}
			if troubled[u.source] = u.Err != nil; u.Err != nil {
				t.use(nil, nil) // a list must now get its error from the broker
				return yield(TaskChange{}, fmt.Errorf("watch tasks: %w", u.Err))
			}
			changed := w.apply(u)
			w.mu.RLock()
			ids.take(w.tasks, changed)
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

// Count counts the tasks by status, with an entry for every Status; nil while the copy
// is not kept current.
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
	w.tasks.each(sorted, Filter{}, func(info TaskInfo) bool {
		counts[info.Status]++
		return true
	})
	return counts
}

// each passes the selected tasks to take, by ID, until take returns false. each itself
// returns false if there is no copy, or it is not recent enough.
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
	w.tasks.each(sorted, f, take)
	return true
}

// alone waits until no one else reads all tasks from the broker. The caller must call
// over when its own read is done.
func (t *TaskCopy) alone(ctx context.Context) (over func(), err error) {
	select {
	case t.reading <- struct{}{}:
		return func() { <-t.reading }, nil
	case <-ctx.Done():
		return nil, broker.NewError("list", t.client.space.Tasks(), broker.ErrUnavailable, ctx.Err())
	}
}

// sortedIDs has the IDs of an index in order. It sorts them on demand: many tasks can
// arrive between two lists.
type sortedIDs struct {
	mu    sync.Mutex
	known map[string]bool
	// ids was correct at some time and is never modified. since has the IDs added after
	// that, and gone is true if some were removed.
	ids, since []string
	gone       bool
}

// take records tasks that may have been added or removed.
func (s *sortedIDs) take(b *taskIndex, changed []string) {
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

// sorted returns the IDs in order. The caller must not modify them.
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

// noticedWrites is a broker that remembers which writes to the copied prefixes went
// through it, until the copy has them.
type noticedWrites struct {
	broker.Broker
	prefixes [sourceCount]string

	mu sync.Mutex
	// copy is the copy that is kept current, nil for none.
	copy    *taskWatch
	sources [sourceCount]noticed
	// arrival is closed when the copy changes.
	arrival chan struct{}
	// unsure is until when the copy may lack a write whose outcome was unknown. A
	// caller that finds out that it was applied learns no revision to wait for.
	unsure time.Time
}

// noticed describes the writes below one prefix.
type noticed struct {
	// at is the revision up to which the copy is complete.
	at broker.Revision
	// put is the revision of the last put; the copy will reach it.
	put broker.Revision
	// deleted has the revisions of deletions of keys that the copy may still have; last
	// is the latest of them. Deleting an absent key changes nothing, so the copy need
	// not reach that revision.
	deleted map[string]broker.Revision
	last    broker.Revision
}

func noticeWrites(b broker.Broker, of *taskIndex) *noticedWrites {
	n := &noticedWrites{Broker: b, arrival: make(chan struct{})}
	for i, source := range of.sources() {
		n.prefixes[i] = source.Prefix
	}
	return n
}

// follow starts with an empty copy; nil stops following.
func (n *noticedWrites) follow(w *taskWatch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.copy = w
	for i := range n.sources {
		n.sources[i] = noticed{deleted: map[string]broker.Revision{}}
	}
	n.wake()
}

func (n *noticedWrites) wake() {
	close(n.arrival)
	n.arrival = make(chan struct{})
}

// Commit implements broker.Broker.
func (n *noticedWrites) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	results := n.Broker.Commit(ctx, txns...)
	for i, r := range results {
		ops := txns[i].Else
		if r.OK {
			ops = txns[i].Then
		}
		switch {
		case r.Err == nil:
			n.notice(ops, r.Revision)
		case broker.MaybeApplied(r.Err):
			n.mu.Lock()
			n.unsure = time.Now().Add(broker.ProgressMax) // a watch that is behind by more has ended
			n.mu.Unlock()
		}
	}
	return results
}

func (n *noticedWrites) notice(ops []broker.Op, at broker.Revision) {
	n.mu.Lock()
	w := n.copy
	for _, op := range ops {
		i := slices.IndexFunc(n.prefixes[:], func(prefix string) bool { return strings.HasPrefix(op.Key, prefix) })
		if w == nil || i < 0 || n.sources[i].at >= at {
			continue
		}
		switch s := &n.sources[i]; op.Kind {
		case broker.OpPut:
			s.put = max(s.put, at)
		case broker.OpDelete:
			s.deleted[op.Key], s.last = at, max(s.last, at)
		}
	}
	n.mu.Unlock() // holders of the copy's lock call own
	for _, op := range ops {
		if w != nil && op.Kind == broker.OpDelete {
			w.deleted(op.Key)
		}
	}
}

// own reports whether a noticed write deleted a key at a revision.
func (n *noticedWrites) own(key string, at broker.Revision) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.sources[:], func(s noticed) bool { return s.deleted[key] == at })
}

// arrived records what has reached the copy.
func (n *noticedWrites) arrived(u sourced) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := &n.sources[u.source]
	s.at = max(s.at, u.revision())
	if s.at >= s.last {
		clear(s.deleted)
	}
	n.wake()
}

// wait waits until the copy has all earlier writes. It returns false if that takes too
// long or is not known, or if there is no copy any more.
func (n *noticedWrites) wait(ctx context.Context, most time.Duration) bool {
	n.mu.Lock()
	before, unsure := n.sources, time.Now().Before(n.unsure)
	n.mu.Unlock()
	if unsure {
		return false
	}
	var timeout <-chan time.Time
	for {
		n.mu.Lock()
		w, arrival := n.copy, n.arrival
		there, unless := n.upTo(&before)
		n.mu.Unlock()
		switch {
		case w == nil:
			return false
		case there && !w.hasAny(unless):
			return true
		case timeout == nil:
			timeout = time.After(most)
		}
		select {
		case <-arrival:
		case <-timeout:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// upTo reports whether the copy has the writes up to a given moment, provided that it
// has none of the keys in unless, which are deleted by now.
func (n *noticedWrites) upTo(before *[sourceCount]noticed) (there bool, unless []string) {
	for i := range n.sources {
		now := &n.sources[i]
		if now.at < before[i].put {
			return false, nil
		}
		if now.at < before[i].last {
			unless = slices.AppendSeq(unless, maps.Keys(now.deleted))
		}
	}
	return true, unless
}
