package mirror

import (
	"context"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// ReconcileEvery is the period after which a copy checks whether its watch has missed anything.
const ReconcileEvery = 2 * time.Minute

// Woken is the source of no update.
const Woken = -1

// Sourced is an update and the index of the source that it belongs to, or Woken.
type Sourced struct {
	Update
	Source int
}

// Revision returns the revision to which the update brings its source.
func (s Sourced) Revision() broker.Revision {
	if s.Snapshot != nil {
		return s.Snapshot.Revision
	}
	return s.Batch.Revision
}

// FollowAll follows several sources in a broker and passes their updates to take, one at a time,
// until take returns false or ctx is done. complete is true once each was listed
// in full: a partial picture would show tasks in a wrong state. What wakes it passes an
// update of Woken.
func FollowAll(ctx context.Context, b broker.Broker, sources []Source, wake <-chan time.Time, take func(u Sourced, complete bool) bool) {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel()
	updates := make(chan Sourced)
	for i, source := range sources {
		source.Broker, source.Reconcile = b, ReconcileEvery
		following.Go(func() {
			Follow(ctx, source, func(u Update) {
				select {
				case updates <- Sourced{Update: u, Source: i}:
				case <-ctx.Done():
				}
			})
		})
	}
	seen := map[int]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-wake:
			if !take(Sourced{Source: Woken}, len(seen) == len(sources)) {
				return
			}
		case u := <-updates:
			if u.Snapshot != nil {
				seen[u.Source] = true
			}
			if !take(u, len(seen) == len(sources)) {
				return
			}
		}
	}
}
