package zookeeper

import (
	"context"
	"maps"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// longValues are the values that are too long for a record. Watches and listings read them
// from their keys, many at once. If a key has changed since, the value is lost: then the
// watch or listing also includes all changes up to the time of reading.
type longValues struct {
	broker *Broker
	link   *link
	// reads are the keys as they were read.
	reads map[string]keyRead
	// hot are the keys that had changed since. They are read again along with others, so
	// that all of them are known at one revision.
	hot map[string]bool
}

// keyRead is a key as it was read, nil if it did not exist.
type keyRead struct {
	kv *broker.KV
	at broker.Revision
}

// isOf reports whether the value is that of the put at a revision.
func (r keyRead) isOf(put broker.Revision) bool { return r.kv != nil && r.kv.Modified == put }

// fillsMax limits how often keys are read again because others have changed meanwhile.
const fillsMax = 32

func newLongValues(b *Broker, l *link) *longValues {
	return &longValues{broker: b, link: l, reads: map[string]keyRead{}, hot: map[string]bool{}}
}

// read reads keys whose values are wanted as of revision upTo, given with the revisions of
// their last puts. It returns the revision to deliver up to instead, if a key has changed.
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
		if reads[key].isOf(modified) {
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

// readKeys reads keys, those of one request all at one revision, and returns the revision
// of the last request.
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

// whole returns the batch of what a watch sees up to a revision, or further if a long value
// has been overwritten since.
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

// covered returns the events up to a revision, and the last change of each key of which a
// value was left out.
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

// missing returns the keys whose last value is unknown, with the revisions of their puts.
func (l *longValues) missing(events []event, last map[string]broker.Revision) map[string]broker.Revision {
	wanted := map[string]broker.Revision{}
	for _, e := range events {
		if key := e.KV.Key; e.long > 0 && e.KV.Modified == last[key] && !l.reads[key].isOf(last[key]) {
			wanted[key] = last[key]
		}
	}
	return wanted
}

// fill adds the value to the last put of each key, and leaves out puts whose value is lost.
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
