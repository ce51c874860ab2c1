package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/windlass-go/windlass/broker"
)

// ttlSecondsMax is the longest lease that etcd grants, some 285 years.
const ttlSecondsMax = clientv3.MaxLeaseTTL

// wholeSeconds rounds up.
func wholeSeconds(ttl time.Duration) int64 { return int64(math.Ceil(ttl.Seconds())) }

func checkTTL(ttl time.Duration) error {
	if ttl <= 0 || wholeSeconds(ttl) > ttlSecondsMax {
		return broker.NewError("grant", "", broker.ErrInvalid,
			fmt.Errorf("TTL %v: it is positive and at most %d seconds", ttl, int64(ttlSecondsMax)))
	}
	return nil
}

// newLeaseID returns a random ID. The client chooses it, so that it can also end a lease
// whose grant was not answered.
func newLeaseID() broker.SessionID { return 1 + broker.SessionID(rand.Int64N(math.MaxInt64)) }

// grantLease opens a lease.
func (b *Broker) grantLease(ctx context.Context, id broker.SessionID, seconds int64) (broker.Session, error) {
	var answer *pb.LeaseGrantResponse
	err := b.call(ctx, "grant", "", func(ctx context.Context) (err error) {
		answer, err = b.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: seconds}, grpc.WaitForReady(true))
		return clientv3.ContextError(ctx, err)
	})
	if err != nil {
		return broker.Session{}, err
	}
	if answer.ID != int64(id) || answer.TTL < seconds {
		// Keys of no session would never expire. A lease that was granted does.
		return broker.Session{}, broker.NewError("grant", "", broker.ErrUnavailable, errMisfit)
	}
	return broker.Session{ID: id, TTL: time.Duration(answer.TTL) * time.Second}, nil
}

// renewLease renews a lease once. The client's KeepAliveOnce repeats without a pause while a
// member refuses.
func (b *Broker) renewLease(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	return anywhere(ctx, b, "keepalive", "", b.toAll(), func(ctx context.Context) (time.Duration, error) {
		ctx, cancel := context.WithCancel(ctx) // ends the stream
		defer cancel()
		stream, err := b.leases.LeaseKeepAlive(forStream(ctx))
		if err != nil {
			return 0, err
		}
		sent := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)})
		// Only the receiving side knows why a stream has ended.
		answer, err := stream.Recv()
		switch {
		case err != nil:
			return 0, err
		case sent != nil:
			return 0, sent
		case answer.TTL <= 0:
			// etcd's answer if there is no such lease.
			return 0, rpctypes.ErrLeaseNotFound
		}
		return time.Duration(answer.TTL) * time.Second, nil
	})
}

// revokeLease ends a lease and deletes its keys. One that is gone is no error.
func (b *Broker) revokeLease(ctx context.Context, id broker.SessionID) error {
	err := b.call(ctx, "revoke", "", func(ctx context.Context) error {
		_, err := b.leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(id)}, grpc.WaitForReady(true))
		return clientv3.ContextError(ctx, err)
	})
	if errors.Is(err, broker.ErrSessionExpired) {
		return nil
	}
	return err
}
