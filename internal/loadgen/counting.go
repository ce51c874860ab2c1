package loadgen

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
)

// The methods of a broker, as they are counted.
const (
	methodGet       = "get"
	methodList      = "list"
	methodCommit    = "commit"
	methodWatch     = "watch"
	methodGrant     = "grant"
	methodKeepAlive = "keepalive"
	methodRevoke    = "revoke"
)

// countedBroker counts the calls that it passes on. Of a listing it counts the
// pages.
type countedBroker struct {
	broker.Broker
	get, list, commit, watch, grant, keepAlive, revoke atomic.Int64
}

var _ broker.Broker = (*countedBroker)(nil)

// Get implements broker.Broker.
func (b *countedBroker) Get(ctx context.Context, key string) (broker.KV, error) {
	b.get.Add(1)
	return b.Broker.Get(ctx, key)
}

// List implements broker.Broker.
func (b *countedBroker) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) {
		for page, err := range b.Broker.List(ctx, prefix) {
			b.list.Add(1)
			if !yield(page, err) {
				return
			}
		}
	}
}

// Commit implements broker.Broker.
func (b *countedBroker) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	b.commit.Add(1)
	return b.Broker.Commit(ctx, txns...)
}

// Watch implements broker.Broker.
func (b *countedBroker) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	b.watch.Add(1)
	return b.Broker.Watch(ctx, prefix, from)
}

// Grant implements broker.Broker.
func (b *countedBroker) Grant(ctx context.Context, folder string, ttl time.Duration) (broker.Session, error) {
	b.grant.Add(1)
	return b.Broker.Grant(ctx, folder, ttl)
}

// KeepAlive implements broker.Broker.
func (b *countedBroker) KeepAlive(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	b.keepAlive.Add(1)
	return b.Broker.KeepAlive(ctx, id)
}

// Revoke implements broker.Broker.
func (b *countedBroker) Revoke(ctx context.Context, id broker.SessionID) error {
	b.revoke.Add(1)
	return b.Broker.Revoke(ctx, id)
}

func (b *countedBroker) counts() map[string]int64 {
	return map[string]int64{
		methodGet: b.get.Load(), methodList: b.list.Load(), methodCommit: b.commit.Load(), methodWatch: b.watch.Load(),
		methodGrant: b.grant.Load(), methodKeepAlive: b.keepAlive.Load(), methodRevoke: b.revoke.Load(),
	}
}

// claimCounts count the claims of a node, over all its incarnations.
type claimCounts struct {
	attempts, lost atomic.Int64
}

// wrap counts what a coordinator is asked to claim.
func (c *claimCounts) wrap(plain coordinator.Coordinator) coordinator.Coordinator {
	return &countedCoordinator{Coordinator: plain, counts: c}
}

type countedCoordinator struct {
	coordinator.Coordinator
	counts *claimCounts
}

// Claim implements coordinator.Coordinator.
func (c *countedCoordinator) Claim(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
	results := c.Coordinator.Claim(ctx, wanted)
	c.counts.attempts.Add(int64(len(wanted)))
	for _, r := range results {
		if errors.Is(r.Err, coordinator.ErrOwned) {
			c.counts.lost.Add(1)
		}
	}
	return results
}
