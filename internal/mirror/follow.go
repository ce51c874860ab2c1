package mirror

import (
	"context"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// Update is one step of a copy. Exactly one of its forms is set.
type Update struct {
	// Snapshot is a whole new listing, if not nil.
	Snapshot *Snapshot
	// Batch has changes to apply, or progress only.
	Batch broker.Batch
	// Err is set if the broker cannot be followed for now. The copy stays as it is and
	// Follow retries.
	Err error
}

// Snapshot is a listing at one revision.
type Snapshot struct {
	KVs      []broker.KV
	Revision broker.Revision
	// tasks is the result of Tasks.Prepare.
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
	// Prepare, if set, is called with each snapshot before it is sent.
	Prepare func(*Snapshot)
	// Reconcile is the period after which Follow checks whether the watch has missed
	// anything. It varies by a tenth so that nodes do not check together.
	Reconcile time.Duration
}

// Limits of the pause before the broker is tried again.
const (
	retryMin = 50 * time.Millisecond
	retryMax = 2 * time.Second
)

// Follow sends updates until ctx is done. send must return once ctx is done.
func Follow(ctx context.Context, source Source, send func(Update)) {
	retry := pause.Backoff{Min: retryMin, Max: retryMax}
	for ctx.Err() == nil {
		err := source.followOnce(ctx, send, retry.Reset)
		if ctx.Err() != nil || err == nil {
			continue
		}
		send(Update{Err: err})
		retry.Pause(ctx)
	}
}

// replaysMax is how often changes are compared before everything is listed again.
const replaysMax = 30

// followOnce lists, then watches. When the reconcile period is over, it starts another
// watch from the same revision, so that another stream repeats the changes for
// comparison. It returns nil when it is time to list again, or an error.
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
	listed := broker.Revision(len(snapshot.KVs))
	if s.Prepare != nil {
		s.Prepare(snapshot)
	}
	send(Update{Snapshot: snapshot})
	told := span{from: snapshot.Revision, to: snapshot.Revision}
	for range replaysMax {
		next, again, err := s.watch(ctx, told, send, healthy)
		if err != nil || !again || ctx.Err() != nil {
			return err
		}
		if told = next; told.to-told.from > listed {
			return nil // a listing costs no more than watching that again
		}
	}
	return nil
}

// span summarizes the changes after one revision and up to another.
type span struct {
	from, to broker.Revision
	// sum combines the hashes of the changes by exclusive or.
	sum uint64
}

var spanSeed = maphash.MakeSeed()

func (s *span) add(e broker.Event) {
	s.sum ^= maphash.Comparable(spanSeed, struct {
		key      string
		modified broker.Revision
		deleted  bool
	}{e.KV.Key, e.KV.Modified, e.Deleted})
}

// watch watches from the start of a span until the reconcile period is over. Changes
// within the span were sent already and are compared; later changes are sent. It
// returns the span of the changes that it has sent, and whether to continue: false if
// the first watch missed something.
func (s Source) watch(ctx context.Context, told span, send func(Update), healthy func()) (next span, again bool, err error) {
	watching, cancel := context.WithTimeout(ctx, s.period())
	defer cancel()
	repeated, compared := span{}, told.to == told.from
	next = span{from: told.to, to: told.to}
	followed := told.to > told.from // the watch before made progress
	for batch, err := range s.Broker.Watch(watching, s.Prefix, told.from+1) {
		switch {
		case err != nil && isOver(watching):
			<-watching.Done()
			return next, compared, nil
		case errors.Is(err, broker.ErrCompacted) && followed:
			return next, false, nil // list again at once, because this watch made progress
		case err != nil:
			return next, false, err
		}
		followed = true
		healthy()
		events := batch.Events
		for len(events) > 0 && events[0].KV.Modified <= told.to {
			repeated.add(events[0])
			events = events[1:]
		}
		if batch.Revision < told.to {
			continue
		}
		if repeated.sum != told.sum {
			return next, false, nil
		}
		compared = true
		for i := range events {
			next.add(events[i])
			s.strip(&events[i].KV)
		}
		batch.Events, next.to = events, batch.Revision
		send(Update{Batch: batch})
	}
	return next, false, nil
}

func (s Source) strip(kv *broker.KV) {
	if s.Strip != nil {
		s.Strip(kv)
	}
}

func (s Source) period() time.Duration {
	return s.Reconcile - s.Reconcile/20 + rand.N(s.Reconcile/10+1)
}

// isOver reports whether a context has ended, or is about to: the other side may notice
// a moment earlier.
func isOver(ctx context.Context) bool {
	deadline, bounded := ctx.Deadline()
	return ctx.Err() != nil || bounded && time.Until(deadline) <= time.Millisecond
}
