package mirror

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// Update is one step of a copy. Exactly one of its forms is set.
type Update struct {
	// Snapshot is not nil for a whole new listing.
	Snapshot *Snapshot
	// Batch has changes to apply, or mere progress.
	Batch broker.Batch
	// Err tells that the broker could not be followed for now. The copy stays
	// as it is and Follow tries again.
	Err error
}

// Snapshot is a listing at one revision.
type Snapshot struct {
	KVs      []broker.KV
	Revision broker.Revision
	// tasks is what Tasks.Prepare made of it.
	tasks *Tasks
}

// Source says what to follow, and how.
type Source struct {
	// Broker to read from.
	Broker broker.Broker
	// Prefix to follow, ending in a slash.
	Prefix string
	// Strip, if set, may drop the value of a key that the copy does not keep,
	// so that a snapshot is never in memory with all its values.
	Strip func(*broker.KV)
	// Prepare, if set, is given each snapshot before it is sent.
	Prepare func(*Snapshot)
	// Reconcile is the time after which to list anew; it varies by a tenth so
	// that nodes do not do it together.
	Reconcile time.Duration
}

// Bounds of the pause before the broker is tried again.
const (
	retryMin = 50 * time.Millisecond
	retryMax = 2 * time.Second
)

// Follow sends updates until ctx is done. send must return once ctx is done.
func Follow(ctx context.Context, source Source, send func(Update)) {
	retry := retryMin
	for ctx.Err() == nil {
		err := source.followOnce(ctx, send, func() { retry = retryMin })
		if ctx.Err() != nil || err == nil {
			continue
		}
		send(Update{Err: err})
		// A random part keeps nodes that lost their broker together from
		// coming back together.
		pause(ctx, retry/2+rand.N(retry))
		retry = min(2*retry, retryMax)
	}
}

// followOnce lists, then watches until the reconcile period is over, which is
// no error, or something goes wrong.
func (s Source) followOnce(ctx context.Context, send func(Update), healthy func()) error {
	snapshot := &Snapshot{}
	for page, err := range s.Broker.List(ctx, s.Prefix) {
		if err != nil {
			return err
		}
		for i := range page.KVs {
			s.strip(&page.KVs[i])
		}
		snapshot.KVs = append(snapshot.KVs, page.KVs...)
		snapshot.Revision = page.Revision
	}
	if s.Prepare != nil {
		s.Prepare(snapshot)
	}
	send(Update{Snapshot: snapshot})
	followed := false
	watching, cancel := context.WithTimeout(ctx, s.period())
	defer cancel()
	for batch, err := range s.Broker.Watch(watching, s.Prefix, snapshot.Revision+1) {
		switch {
		case err != nil && isOver(watching):
			<-watching.Done()
			return nil
		case errors.Is(err, broker.ErrCompacted) && followed:
			return nil // listing anew is the whole cure, but not without a pause each time
		case err != nil:
			return err
		}
		followed = true
		healthy()
		for i := range batch.Events {
			s.strip(&batch.Events[i].KV)
		}
		send(Update{Batch: batch})
	}
	return nil
}

func (s Source) strip(kv *broker.KV) {
	if s.Strip != nil {
		s.Strip(kv)
	}
}

func (s Source) period() time.Duration {
	return s.Reconcile - s.Reconcile/20 + rand.N(s.Reconcile/10+1)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// isOver tells whether a context has ended, or is about to: the other side may
// notice a moment earlier.
func isOver(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && time.Until(deadline) <= time.Millisecond
}
