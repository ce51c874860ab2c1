package etcd

import (
	"context"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
)

// Leases counts all leases of the cluster, and those among the first examine of them that
// hold no key. Such a lease has no use; it expires by itself.
func (b *Broker) Leases(ctx context.Context, examine int) (all, bare int, err error) {
	var found *pb.LeaseLeasesResponse
	err = b.call(ctx, "leases", "", func(ctx context.Context) (err error) {
		found, err = b.leases.LeaseLeases(ctx, &pb.LeaseLeasesRequest{})
		return clientv3.ContextError(ctx, err)
	})
	if err != nil {
		return 0, 0, err
	}
	var without atomic.Int64
	flight, ctx := errgroup.WithContext(ctx)
	flight.SetLimit(requestsInFlightMax)
	for _, lease := range found.Leases[:min(examine, len(found.Leases))] {
		flight.Go(func() error {
			return b.call(ctx, "leases", "", func(ctx context.Context) error {
				answer, err := b.leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: lease.ID, Keys: true})
				if err == nil && answer.TTL > 0 && len(answer.Keys) == 0 {
					without.Add(1)
				}
				return clientv3.ContextError(ctx, err)
			})
		})
	}
	if err := flight.Wait(); err != nil {
		return 0, 0, err
	}
	return len(found.Leases), int(without.Load()), nil
}
