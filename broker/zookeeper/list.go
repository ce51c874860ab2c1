package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/windlass-go/windlass/broker"
)

const (
	// pageMax limits the keys of a page.
	pageMax = 1000
	// walksMax limits how often a listing starts over because the history that it needs
	// to be exact was lost.
	walksMax = 5
)

// List implements broker.Broker. It holds the whole listing in memory.
func (b *Broker) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) {
		if err := broker.CheckPrefix(prefix); err != nil {
			yield(broker.Page{}, err)
			return
		}
		ctx, leave, err := b.enter(ctx, "list", prefix)
		if err != nil {
			yield(broker.Page{}, err)
			return
		}
		kvs, revision, err := b.list(ctx, prefix)
		if err != nil {
			err = b.readOnly(ctx, "list", prefix, err)
		}
		leave() // the caller may take its time
		if err != nil {
			yield(broker.Page{}, err)
			return
		}
		for {
			n := min(pageMax, len(kvs))
			if !yield(broker.Page{KVs: kvs[:n:n], Revision: revision}, nil) || n == len(kvs) {
				return
			}
			kvs = kvs[n:]
		}
	}
}

func (b *Broker) list(ctx context.Context, prefix string) (kvs []broker.KV, revision broker.Revision, err error) {
	for range walksMax {
		err = b.attempt(ctx, func(ctx context.Context, l *link) (err error) {
			kvs, revision, err = b.listOnce(ctx, l, prefix)
			return err
		})
		if err == nil || !errors.Is(err, broker.ErrCompacted) {
			return kvs, revision, err
		}
	}
	return nil, 0, err
}

// listOnce walks the subtree in several requests, and brings their results up to the time
// of the last by applying the changes that the feed saw meanwhile.
func (b *Broker) listOnce(ctx context.Context, l *link, prefix string) ([]broker.KV, broker.Revision, error) {
	w, err := b.walk(ctx, l, true, b.layout.path(strings.TrimSuffix(prefix, "/")))
	if err != nil {
		return nil, 0, err
	}
	f := findings{prefix: prefix, kvs: map[string]broker.KV{}, read: map[string]broker.Revision{}}
	for _, n := range w.nodes {
		key, ok := b.layout.key(n.path)
		if !ok || !strings.HasPrefix(key, prefix) {
			continue
		}
		if kv := n.kv(key); kv != nil {
			f.kvs[key], f.read[key] = *kv, broker.Revision(n.zxid)
		} else if n.isEmptyDirectory() {
			b.emptied.add(n.path)
		}
	}
	last, err := f.bringUp(ctx, b, l, broker.Revision(w.first), broker.Revision(w.last))
	if err != nil {
		return nil, 0, err
	}
	kvs := slices.SortedFunc(maps.Values(f.kvs), func(a, b broker.KV) int { return cmp.Compare(a.Key, b.Key) })
	return kvs, last, nil
}

// findings are the keys that a listing has found.
type findings struct {
	prefix string
	kvs    map[string]broker.KV
	// read is the revision at which each was read.
	read map[string]broker.Revision
}

// bringUp applies the changes since the keys were read, the first of them at revision first
// and the last at last. It returns the revision that the result is of: last, or later if a
// long value has been overwritten since.
func (f findings) bringUp(ctx context.Context, b *Broker, l *link, first, last broker.Revision) (broker.Revision, error) {
	values := newLongValues(b, l)
	for range fillsMax {
		v, err := l.feed.until(ctx, last, first+1)
		if err != nil {
			return 0, err
		}
		if v.floor > first {
			return 0, broker.NewError("list", f.prefix, broker.ErrCompacted, nil)
		}
		wanted := f.apply(v, last)
		if len(wanted) == 0 {
			return last, nil
		}
		if last, err = values.read(ctx, wanted, last); err != nil {
			return 0, err
		}
		for key, r := range values.reads {
			if f.read[key] = r.at; r.kv == nil {
				delete(f.kvs, key)
			} else {
				f.kvs[key] = *r.kv
			}
		}
	}
	return 0, broker.NewError("list", f.prefix, broker.ErrCompacted, errBusy)
}

// apply applies to each key its changes up to a revision, except those before it was read.
// It returns the keys whose value is then unknown, with the revisions of their puts.
func (f findings) apply(v view, upTo broker.Revision) map[string]broker.Revision {
	wanted := map[string]broker.Revision{}
	for _, e := range v.entries {
		if e.revision > upTo {
			break
		}
		for _, event := range e.events {
			key := event.KV.Key
			if !strings.HasPrefix(key, f.prefix) || e.revision <= f.read[key] {
				continue
			}
			delete(wanted, key)
			if event.Deleted {
				delete(f.kvs, key)
				continue
			}
			f.kvs[key] = event.KV
			if event.long > 0 {
				wanted[key] = e.revision
			}
		}
	}
	return wanted
}
