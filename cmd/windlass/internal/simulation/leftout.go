package simulation

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// readTime is how long it takes to read long values.
const readTime = 20 * time.Millisecond

// leavingOut is a connection whose watches read long values from their keys, as on
// ZooKeeper. A batch then includes the changes until that reading, and a put that was
// overwritten by then is left out. All values are long except those of claims, nodes
// and elections.
type leavingOut struct {
	*line
	// left is called with the number of values that were left out.
	left func(n int)
}

func long(key string) bool {
	area, rest, _ := strings.Cut(strings.TrimPrefix(key, prefix), "/")
	return area == "state" || area == "history" || area == "progress" || area == "tasks" && !strings.HasSuffix(rest, "/owner")
}

// Watch implements broker.Broker.
func (l leavingOut) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		arrived := make(chan arrival)
		var reading sync.WaitGroup
		reading.Go(func() {
			defer close(arrived)
			for batch, err := range l.line.Watch(ctx, prefix, from) {
				select {
				case arrived <- arrival{batch, err}:
				case <-ctx.Done():
					return
				}
			}
		})
		defer func() {
			stop()
			reading.Wait()
		}()
		for a := range arrived {
			var last error
			if slices.ContainsFunc(a.batch.Events, func(e broker.Event) bool { return long(e.KV.Key) && !e.Deleted }) {
				last = gather(&a.batch, arrived)
			}
			if !yield(l.withoutOverwritten(a.batch), a.err) {
				return
			}
			if last != nil {
				yield(broker.Batch{}, last)
				return
			}
		}
	}
}

// arrival is what a watch yields.
type arrival struct {
	batch broker.Batch
	err   error
}

// gather adds to a batch everything that arrives within the time of a reading. It
// returns the error that ended the watch meanwhile.
func gather(batch *broker.Batch, arrived <-chan arrival) error {
	read := time.After(readTime)
	for {
		select {
		case <-read:
			return nil
		case a, ok := <-arrived:
			if !ok || a.err != nil {
				return a.err
			}
			batch.Events = append(batch.Events, a.batch.Events...)
			batch.Revision = a.batch.Revision
		}
	}
}

// withoutOverwritten leaves out the long values whose keys change again in the batch.
func (l leavingOut) withoutOverwritten(batch broker.Batch) broker.Batch {
	last := map[string]int{}
	for i, e := range batch.Events {
		last[e.KV.Key] = i
	}
	var kept []broker.Event
	for i, e := range batch.Events {
		if e.Deleted || !long(e.KV.Key) || last[e.KV.Key] == i {
			kept = append(kept, e)
		}
	}
	l.left(len(batch.Events) - len(kept))
	batch.Events = kept
	return batch
}
