package loadgen

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// expiry watches for the first claim that vanishes.
type expiry struct {
	at      time.Time
	err     error
	stop    context.CancelFunc
	watcher sync.WaitGroup
}

// watchExpiry begins to watch, from now on.
func (b *bench) watchExpiry(ctx context.Context) (*expiry, error) {
	var now broker.Revision
	err := b.within(ctx, "the broker to tell its revision", func(ctx context.Context) (err error) {
		_, now, err = broker.Collect(ctx, b.Broker, b.space.Nodes())
		return err
	})
	if err != nil {
		return nil, err
	}
	e := &expiry{}
	ctx, e.stop = context.WithCancel(ctx)
	e.watcher.Go(func() {
		for batch, err := range b.Broker.Watch(ctx, b.space.Tasks(), now+1) {
			at := time.Now()
			if err != nil {
				e.err = err
				return
			}
			for _, change := range batch.Events {
				if change.Deleted && b.space.Parse(change.KV.Key).Kind == keys.Owner {
					e.at = at
					return
				}
			}
		}
	})
	return e, nil
}

// seen is when it was, waiting for that until ctx ends.
func (e *expiry) seen(ctx context.Context) (time.Time, error) {
	defer context.AfterFunc(ctx, e.stop)()
	e.watcher.Wait()
	e.stop()
	return e.at, e.err
}

// close ends the watch if it has not ended.
func (e *expiry) close() {
	e.stop()
	e.watcher.Wait()
}

// failoverPhase kills a node, and measures from when its claims vanish.
func (b *bench) failoverPhase(ctx context.Context) error {
	if err := b.calm(ctx); err != nil {
		return err
	}
	live := b.fleet.live()
	victim := live[len(live)-1]
	lost := b.ledger.running[victim.number]
	watch, err := b.watchExpiry(ctx)
	if err != nil {
		return err
	}
	defer watch.close()
	var killed, expired time.Time
	err = b.within(ctx, "the killed node to end", func(ctx context.Context) (err error) {
		killed, err = b.fleet.kill(ctx, victim)
		return err
	})
	if err != nil {
		return err
	}
	b.progress("failover: killed node %s with %d tasks; waiting for its session to expire", nodeName(victim.number), lost)
	if err := b.settle(ctx, fmt.Sprintf("all tasks to run again after node %s was killed", nodeName(victim.number)), b.allRun); err != nil {
		return err
	}
	err = b.within(ctx, "the claims of the killed node to be seen vanishing", func(ctx context.Context) (err error) {
		expired, err = watch.seen(ctx)
		return err
	})
	if err != nil {
		return err
	}
	b.reportFailover(killed, expired, lost)
	return nil
}

func (b *bench) reportFailover(killed, expired time.Time, lost int) {
	starts := b.ledger.starts()
	// A node may have been told of it before this process was.
	if len(starts) > 0 && starts[0].at < expired.UnixNano() {
		expired = time.Unix(0, starts[0].at)
	}
	took := since(starts, func(int) time.Time { return expired })
	moved, _ := moves(starts)
	b.figure(PhaseFailover, "from kill to expiry", expired.Sub(killed).Seconds(), unitSeconds)
	b.figure(PhaseFailover, "tasks moved", float64(len(moved)), unitTasks).against(limitMoves, float64(lost))
	b.figure(PhaseFailover, "restarted", perSecond(len(moved), took.max()), unitRate).against(limitClaims, b.limits.claimsPerSecond)
	b.times(PhaseFailover, "from expiry to start", took)
	b.reportPlacement(PhaseFailover)
	b.curve(PhaseFailover, expired, line{from: b.tasks.count - lost, to: b.tasks.count, perSecond: b.limits.claimsPerSecond})
}
