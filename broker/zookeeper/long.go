package zookeeper

import (
	"context"
	"maps"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// fill has the values that are too long for a record. They are read from their keys by
// whoever delivers them, many at once. A key that has changed meanwhile has another value
// by then, and the one that was wanted is gone: then all that has happened up to the
// reading is delivered with the new one.
type fill struct {
	broker *Broker
	link   *link
	// reads are the keys as of a revision up to which there is to be delivered.
	reads map[string]keyRead
	// hot are the keys that had changed. They are read along with others, so that all of
	// those are known of one moment.
	hot map[string]bool
}

// keyRead is a key as it was read, nil if it was not there.
type keyRead struct {
	kv *broker.KV
	at broker.Revision
}

// fillsMax bounds how often keys are read again, because others have changed meanwhile.
const fillsMax = 32

func newFill(b *Broker, l *link) *fill {
	return &fill{broker: b, link: l, reads: map[string]keyRead{}, hot: map[string]bool{}}
}

// has tells whether the value of a put is known.
func (f *fill) has(key string, modified broker.Revision) bool {
	kv := f.reads[key].kv
	return kv != nil && kv.Modified == modified
}

// read reads keys whose values are wanted as of a revision, given with when each was put
// last, and returns the revision up to which there is to be delivered then.
func (f *fill) read(ctx context.Context, wanted map[string]broker.Revision, upTo broker.Revision) (broker.Revision, error) {
	both := maps.Clone(f.hot)
	for key := range wanted {
		both[key] = true
	}
	reads, at, err := f.readKeys(ctx, slices.Collect(maps.Keys(both)))
	if err != nil {
		return 0, err
	}
	changed := false
	for key, modified := range wanted {
		if kv := reads[key].kv; kv != nil && kv.Modified == modified {
			f.reads[key] = reads[key]
		} else {
			f.hot[key], changed = true, true
		}
	}
	if changed {
		maps.Copy(f.reads, reads)
		upTo = max(upTo, at)
	}
	return upTo, nil
}

// readKeys reads keys, those of one request all at one moment, and returns when the last of
// them was read.
func (f *fill) readKeys(ctx context.Context, keys []string) (map[string]keyRead, broker.Revision, error) {
	paths := make([]string, len(keys))
	keyOf := make(map[string]string, len(keys))
	for i, key := range keys {
		paths[i] = f.broker.layout.path(key)
		keyOf[paths[i]] = key
	}
	reads := make(map[string]keyRead, len(keys))
	var w walk
	err := w.readAll(ctx, f.link, paths, wire.GetData, func(path string, r wire.Result, zxid int64) error {
		z, err := toZnode(r)
		reads[keyOf[path]] = keyRead{z.kv(keyOf[path]), broker.Revision(zxid)}
		return err
	})
	return reads, broker.Revision(w.last), err
}

// whole makes a batch of what a watch sees up to a revision, or further if a value is not
// to be had otherwise.
func (w *watch) whole(ctx context.Context, v view, upTo broker.Revision) (broker.Batch, error) {
	f := newFill(w.broker, w.link)
	for range fillsMax {
		events := w.covered(v, upTo)
		last := map[string]broker.Revision{}
		for _, e := range events {
			last[e.KV.Key] = e.KV.Modified
		}
		wanted := map[string]broker.Revision{}
		for _, e := range events {
			if key := e.KV.Key; e.long > 0 && e.KV.Modified == last[key] && !f.has(key, last[key]) {
				wanted[key] = last[key]
			}
		}
		if len(wanted) == 0 {
			return broker.Batch{Revision: upTo, Events: f.fill(events, last)}, nil
		}
		var err error
		if upTo, err = f.read(ctx, wanted, upTo); err == nil {
			v, err = w.link.feed.until(ctx, upTo, w.next)
		}
		if err != nil {
			return broker.Batch{}, err
		}
		if w.next <= v.floor {
			break
		}
	}
	return broker.Batch{}, compactedError(w.prefix, max(v.floor, w.next))
}

// covered returns the events up to a revision.
func (w *watch) covered(v view, upTo broker.Revision) []event {
	var events []event
	for _, e := range v.entries {
		if e.revision > upTo {
			break
		}
		for _, event := range e.events {
			if w.covers(event.KV.Key) {
				events = append(events, event)
			}
		}
	}
	return events
}

// fill gives the last put of each key its value, and leaves those out whose value is gone.
func (f *fill) fill(events []event, last map[string]broker.Revision) []broker.Event {
	filled := make([]broker.Event, 0, len(events))
	for _, e := range events {
		if e.long > 0 {
			if e.KV.Modified != last[e.KV.Key] {
				continue
			}
			e.KV.Value = f.reads[e.KV.Key].kv.Value
		}
		filled = append(filled, e.Event)
	}
	return filled
}
