package memory

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
)

const (
	// batchEventsMax limits a batch, unless one transaction alone is larger.
	batchEventsMax = 1000
	// quietMax is the time without a change after which a watch reports its progress.
	quietMax = broker.ProgressMax / 2
)

// watcher is one iteration of a watch. The store's lock guards everything but wake.
type watcher struct {
	prefix string
	// next is the first revision whose changes were not checked.
	next broker.Revision
	// idle is set while the watcher has nothing to deliver and waits. Invariant: then
	// next > Store.revision.
	idle bool
	wake chan struct{} // capacity 1
}

// offer wakes an idle watcher if it wants one of the new changes. One that is not idle finds
// them in the history.
func (w *watcher) offer(events []broker.Event, revision broker.Revision) {
	if !w.idle || revision < w.next {
		return
	}
	if !slices.ContainsFunc(events, w.wants) {
		// So that compaction does not overtake a watch without changes.
		w.next = revision + 1
		return
	}
	w.idle = false
	select {
	case w.wake <- struct{}{}:
	default: // a token is left from when it reported its progress instead
	}
}

func (w *watcher) wants(e broker.Event) bool {
	return e.KV.Key == w.prefix || strings.HasSuffix(w.prefix, "/") && strings.HasPrefix(e.KV.Key, w.prefix)
}

// Watch implements broker.Broker.
func (b *Broker) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		err := broker.CheckWatch(prefix, from)
		if err == nil {
			err = b.watch(ctx, &watcher{prefix: prefix, next: from, wake: make(chan struct{}, 1)}, yield)
		}
		if err != nil {
			yield(broker.Batch{}, err)
		}
	}
}

// watch delivers until the caller stops, and then returns nil, or until an error.
func (b *Broker) watch(ctx context.Context, w *watcher, yield func(broker.Batch, error) bool) error {
	s := b.store
	s.enter(w)
	defer s.leave(w)
	quiet := time.NewTimer(quietMax)
	defer quiet.Stop()
	for {
		if err := b.usable(ctx, "watch", w.prefix); err != nil {
			return err
		}
		batch, err := s.poll(w)
		if err != nil {
			return err
		}
		if batch == nil {
			select {
			case <-w.wake:
				continue
			case <-quiet.C:
				batch = s.progress(w)
			case <-ctx.Done():
				continue
			case <-b.life.Done():
				continue
			}
		}
		if !yield(*batch, nil) {
			return nil
		}
		quiet.Reset(quietMax)
	}
}

func (s *Store) enter(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers[w] = struct{}{}
}

func (s *Store) leave(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
}

// poll returns the next changes for a watcher, which is idle if there are none.
func (s *Store) poll(w *watcher) (*broker.Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.next <= s.compacted {
		return nil, broker.NewError("watch", w.prefix, broker.ErrCompacted,
			fmt.Errorf("the history up to revision %d is gone, from %d was asked for", s.compacted, w.next))
	}
	batch := &broker.Batch{}
	next := max(w.next, s.revision+1)
	for _, e := range s.history[s.index(w.next):] {
		if n := len(batch.Events); n >= batchEventsMax && e.KV.Modified > batch.Events[n-1].KV.Modified {
			next = e.KV.Modified
			break
		}
		if w.wants(e) {
			batch.Events = append(batch.Events, e)
		}
	}
	w.next = next
	if w.idle = len(batch.Events) == 0; w.idle {
		return nil, nil
	}
	batch.Revision = w.next - 1
	return batch, nil
}

// progress returns a batch without events. A watcher that was woken meanwhile polls next.
func (s *Store) progress(w *watcher) *broker.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &broker.Batch{Revision: w.next - 1}
}
