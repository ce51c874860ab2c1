package zookeeper

import (
	"context"
	"maps"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// longValues are the values that are too long for a record. They are read from their keys by
// whoever delivers them, many at once. A key that has changed meanwhile has another value
// by then, and the one that was wanted is gone: then all that has happened up to the
// reading is delivered with the new one.
type longValues struct {
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

func newLongValues(b *Broker, l *link) *longValues {
	return &longValues{broker: b, link: l, reads: map[string]keyRead{}, hot: map[string]bool{}}
}

// has tells whether the value of a put is known.
func (l *longValues) has(key string, modified broker.Revision) bool {
	kv := l.reads[key].kv
	return kv != nil && kv.Modified == modified
}

// read reads keys whose values are wanted as of a revision, given with when each was put
// last, and returns the revision up to which there is to be delivered then.
func (l *longValues) read(ctx context.Context, wanted map[string]broker.Revision, upTo broker.Revision) (broker.Revision, error) {
	both := maps.Clone(l.hot)
	for key := range wanted {
		both[key] = true
	}
	reads, at, err := l.readKeys(ctx, slices.Collect(maps.Keys(both)))
	if err != nil {
		return 0, err
	}
	changed := false
	for key, modified := range wanted {
		if kv := reads[key].kv; kv != nil && kv.Modified == modified {
			l.reads[key] = reads[key]
		} else {
			l.hot[key], changed = true, true
		}
	}
	if changed {
		maps.Copy(l.reads, reads)
		upTo = max(upTo, at)
	}
	return upTo, nil
}

// readKeys reads keys, those of one request all at one moment, and returns when the last of
// them was read.
func (l *longValues) readKeys(ctx context.Context, keys []string) (map[string]keyRead, broker.Revision, error) {
	paths := make([]string, len(keys))
	for i, key := range keys {
		paths[i] = l.broker.layout.path(key)
	}
	reads := make(map[string]keyRead, len(keys))
	var w walk
	err := w.readAll(ctx, l.link, paths, wire.GetData, func(path string, r wire.Result, zxid int64) error {
		key, _ := l.broker.layout.key(path)
		z, err := toZnode(r)
		reads[key] = keyRead{z.kv(key), broker.Revision(zxid)}
		return err
	})
	return reads, broker.Revision(w.last), err
}

// whole makes a batch of what a watch sees up to a revision, or further if a value is not
// to be had otherwise.
func (w *watch) whole(ctx context.Context, v view, upTo broker.Revision) (broker.Batch, error) {
	values := newLongValues(w.broker, w.link)
	for range fillsMax {
		events, last := w.covered(v, upTo)
		wanted := values.missing(events, last)
		if len(wanted) == 0 {
			return broker.Batch{Revision: upTo, Events: values.fill(events, last)}, nil
		}
		var err error
		if upTo, err = values.read(ctx, wanted, upTo); err == nil {
			v, err = w.link.feed.until(ctx, upTo, w.next)
		}
		if err != nil {
			return broker.Batch{}, err
		}
		if w.next <= v.floor {
			return broker.Batch{}, compactedError(w.prefix, v.floor)
		}
	}
	return broker.Batch{}, broker.NewError("watch", w.prefix, broker.ErrCompacted, errBusy)
}

// covered returns the events up to a revision, and when each key changed last whose value is
// not in all of them.
func (w *watch) covered(v view, upTo broker.Revision) ([]event, map[string]broker.Revision) {
	var events []event
	var last map[string]broker.Revision // most often there are none
	for _, e := range v.entries {
		if e.revision > upTo {
			break
		}
		for _, event := range e.events {
			if !w.covers(event.KV.Key) {
				continue
			}
			events = append(events, event)
			if event.long > 0 && last == nil {
				last = map[string]broker.Revision{}
			}
			if _, long := last[event.KV.Key]; long || event.long > 0 {
				last[event.KV.Key] = e.revision
			}
		}
	}
	return events, last
}

// missing returns the keys whose last value is not known, with when it was put.
func (l *longValues) missing(events []event, last map[string]broker.Revision) map[string]broker.Revision {
	wanted := map[string]broker.Revision{}
	for _, e := range events {
		if key := e.KV.Key; e.long > 0 && e.KV.Modified == last[key] && !l.has(key, last[key]) {
			wanted[key] = last[key]
		}
	}
	return wanted
}

// fill gives the last put of each key its value, and leaves those out whose value is gone.
func (l *longValues) fill(events []event, last map[string]broker.Revision) []broker.Event {
	filled := make([]broker.Event, 0, len(events))
	for _, e := range events {
		if e.long > 0 {
			if e.KV.Modified != last[e.KV.Key] {
				continue
			}
			e.KV.Value = l.reads[e.KV.Key].kv.Value
		}
		filled = append(filled, e.Event)
	}
	return filled
}
