package memory

import (
	"context"
	"iter"

	"github.com/windlass-go/windlass/broker"
)

var _ broker.Broker = (*Broker)(nil)

// Broker is a connection to a Store. Its methods are safe for concurrent use.
type Broker struct {
	store *Store
	life  context.Context // ends with Close and with the store
	end   context.CancelFunc
}

// Store returns the store behind the connection.
func (b *Broker) Store() *Store { return b.store }

// Close implements broker.Broker. It closes only this connection.
func (b *Broker) Close() error {
	b.end()
	return nil
}

// usable refuses a call on a closed connection or with a context that has ended.
func (b *Broker) usable(ctx context.Context, op, key string) error {
	if b.life.Err() != nil {
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

// pageKeysMax limits a page. It is small, so that tests see several pages.
const pageKeysMax = 1000

// List implements broker.Broker. The snapshot is taken when the iteration begins. After a
// compaction it ends with ErrCompacted, as with a real store.
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
			page := broker.Page{KVs: make([]broker.KV, min(len(kvs), pageKeysMax)), Revision: revision}
			for i := range page.KVs {
				page.KVs[i] = *kvs[i]
			}
			if !yield(page, nil) {
				return
			}
			kvs = kvs[len(page.KVs):]
		}
	}
}

// isCompacted reports whether the state at a revision can no longer be read.
func (s *Store) isCompacted(snapshot broker.Revision) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return snapshot < s.compacted
}
