package zookeeper

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

const (
	// quietMax is the longest time between two batches.
	quietMax = broker.ProgressMax / 2
	// batchEventsMax and batchBytesMax limit a batch, unless a single transaction is
	// larger.
	batchEventsMax = 10_000
	batchBytesMax  = 8 << 20
)

// Watch implements broker.Broker. It reads the history of the connection; see feed.
func (b *Broker) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		if err := broker.CheckWatch(prefix, from); err != nil {
			yield(broker.Batch{}, err)
			return
		}
		entered, leave, err := b.enter(ctx, "watch", prefix)
		if err != nil {
			yield(broker.Batch{}, err)
			return
		}
		// Close does not wait for the rest of the watch: its caller may be busy.
		w := watch{broker: b, prefix: prefix, next: from}
		err = w.begin(entered)
		leave()
		for err == nil && ctx.Err() == nil && b.life.Err() == nil {
			var batch broker.Batch
			if batch, err = w.batch(ctx); err == nil && !yield(batch, nil) {
				return
			}
		}
		if err == nil {
			err = &wire.Error{Cause: context.Cause(ctx)}
		}
		yield(broker.Batch{}, b.readOnly(ctx, "watch", prefix, err))
	}
}

// watch is one iteration. It belongs to the goroutine that iterates.
type watch struct {
	broker *Broker
	prefix string
	// link has the history.
	link *link
	// next is the first revision that has not been delivered. It never falls.
	next broker.Revision
}

// begin chooses the link whose history the watch reads.
func (w *watch) begin(ctx context.Context) error {
	return w.broker.attempt(ctx, func(ctx context.Context, l *link) error {
		w.link = l
		v := l.feed.since(w.next)
		if w.broker.isLost(w.next-1, v.complete) {
			return compactedError(w.prefix, w.next-1)
		}
		if v.err != nil || w.next > v.floor {
			return v.err
		}
		if strings.HasSuffix(w.prefix, "/") {
			return compactedError(w.prefix, v.floor)
		}
		if err := w.unchanged(ctx, l); err != nil {
			return err
		}
		w.next = v.floor + 1
		return nil
	})
}

func compactedError(prefix string, floor broker.Revision) error {
	return broker.NewError("watch", prefix, broker.ErrCompacted,
		fmt.Errorf("the history up to revision %d is not known to this connection", floor))
}

// unchanged checks that the watched key has not changed from the revision at which the
// watch begins up to the beginning of the history. So a caller that has just read a key can
// watch it from there on, however short the history is.
func (w *watch) unchanged(ctx context.Context, l *link) error {
	path := w.broker.layout.path(w.prefix)
	reads := []wire.Read{wire.GetData(path)}
	for _, above := range w.broker.layout.ancestors(path) {
		reads = append(reads, wire.GetData(above))
	}
	results, _, err := w.broker.readNow(ctx, l, reads...)
	if err != nil {
		return err
	}
	z, err := toZnode(results[0])
	if err != nil {
		return err
	}
	if kv := z.kv(w.prefix); kv != nil && kv.Modified < w.next || z.there && kv == nil && z.stat.Mzxid < int64(w.next) {
		return nil
	}
	if !z.there {
		// It was missing all the time if the children of the lowest existing ancestor
		// have not changed.
		for i := len(results) - 1; i > 0; i-- {
			if above, err := toZnode(results[i]); err != nil || above.there {
				if err == nil && above.stat.Pzxid < int64(w.next) {
					return nil
				}
				break
			}
		}
	}
	return compactedError(w.prefix, l.feed.since(w.next).floor)
}

// batch waits for the next batch.
func (w *watch) batch(ctx context.Context) (broker.Batch, error) {
	quiet := time.NewTimer(quietMax)
	defer quiet.Stop()
	late := false
	for {
		v := w.link.feed.since(w.next)
		if w.next <= v.floor {
			return broker.Batch{}, compactedError(w.prefix, v.floor)
		}
		batch, err := w.whole(ctx, v, w.limit(v))
		if err != nil {
			return broker.Batch{}, err
		}
		w.next = max(w.next, batch.Revision+1)
		if len(batch.Events) > 0 || late && v.err == nil {
			batch.Revision = w.next - 1
			return batch, nil
		}
		if v.err != nil {
			return broker.Batch{}, v.err
		}
		select {
		case <-v.changed:
		case <-quiet.C:
			late = true
		case <-ctx.Done():
			return broker.Batch{}, &wire.Error{Cause: ctx.Err()}
		case <-w.broker.life.Done():
			return broker.Batch{}, &wire.Error{Cause: wire.ErrClosed}
		}
	}
}

// limit returns the revision at which the next batch ends.
func (w *watch) limit(v view) broker.Revision {
	events, bytes := 0, 0
	for _, e := range v.entries {
		for _, event := range e.events {
			if w.covers(event.KV.Key) {
				events++
				bytes += len(event.KV.Value) + event.long
			}
		}
		if events >= batchEventsMax || bytes >= batchBytesMax {
			return e.revision
		}
	}
	return v.complete
}

func (w *watch) covers(key string) bool {
	if strings.HasSuffix(w.prefix, "/") {
		return strings.HasPrefix(key, w.prefix)
	}
	return key == w.prefix
}
