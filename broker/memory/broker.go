package memory

import (
	"context"
	"iter"
	"sync"

	"github.com/windlass-go/windlass/broker"
)

var _ broker.Broker = (*Broker)(nil)

// Broker is a connection to a Store. Its methods are safe for concurrent use.
type Broker struct {
	store  *Store
	once   sync.Once
	closed chan struct{} // closed by Close
}

// Store returns the store behind the connection.
func (b *Broker) Store() *Store { return b.store }

// Close implements broker.Broker. It closes only this connection.
func (b *Broker) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// usable refuses a call on a closed connection or with a context that has ended.
func (b *Broker) usable(ctx context.Context, op, key string) error {
	if isClosed(b.closed) || isClosed(b.store.closed) {
		return broker.NewError(op, key, broker.ErrClosed, nil)
	}
	if err := ctx.Err(); err != nil {
		return broker.NewError(op, key, broker.ErrUnavailable, err)
	}
	return nil
}

// Get implements broker.Broker.
func (b *Broker) Get(ctx context.Context, key string) (broker.KV, error) {
	if err := broker.CheckKey(key); err != nil {
		return broker.KV{}, err
	}
	if err := b.usable(ctx, "get", key); err != nil {
		return broker.KV{}, err
	}
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	kv := b.store.keys.get(key)
	if kv == nil {
		return broker.KV{}, broker.NewError("get", key, broker.ErrNotFound, nil)
	}
	return *kv, nil
}

// pageKeysMax bounds a page. It is small enough for a test to see several.
const pageKeysMax = 1000

// List implements broker.Broker. The snapshot is taken when the iteration begins. It
// still ends with ErrCompacted after a compaction, because a real store could not serve
// it.
func (b *Broker) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) {
		if err := broker.CheckPrefix(prefix); err != nil {
			yield(broker.Page{}, err)
			return
		}
		b.store.mu.Lock()
		kvs, revision := b.store.keys.below(prefix), b.store.revision
		b.store.mu.Unlock()
		for first := true; first || len(kvs) > 0; first = false {
			err := b.usable(ctx, "list", prefix)
			if err == nil && b.store.isCompacted(revision) {
				err = broker.NewError("list", prefix, broker.ErrCompacted, nil)
			}
			if err != nil {
				yield(broker.Page{}, err)
				return
			}
			n := min(len(kvs), pageKeysMax)
			page := broker.Page{KVs: make([]broker.KV, n), Revision: revision}
			for i, kv := range kvs[:n] {
				page.KVs[i] = *kv
			}
			kvs = kvs[n:]
			if !yield(page, nil) {
				return
			}
		}
	}
}

// isCompacted tells whether the state at a revision could no longer be read.
func (s *Store) isCompacted(snapshot broker.Revision) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return snapshot < s.compacted
}
