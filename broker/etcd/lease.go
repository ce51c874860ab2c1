package etcd

import (
	"context"
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

// wholeSeconds rounds up, so that nothing vanishes earlier than asked for.
func wholeSeconds(ttl time.Duration) int64 { return int64(math.Ceil(ttl.Seconds())) }

func checkTTL(ttl time.Duration) error {
	if ttl <= 0 || wholeSeconds(ttl) > ttlSecondsMax {
		return broker.NewError("grant", "", broker.ErrInvalid,
			fmt.Errorf("TTL %v: it is positive and at most %d seconds", ttl, int64(ttlSecondsMax)))
	}
	return nil
}

// newLeaseID draws an ID. The client chooses it, so that it can also be ended when the
// answer to its grant was lost.
func newLeaseID() broker.SessionID { return 1 + broker.SessionID(rand.Int64N(math.MaxInt64)) }

// grantLease opens a lease.
func (b *Broker) grantLease(ctx context.Context, id broker.SessionID, seconds int64) (broker.Session, *broker.Error) {
	var answer *pb.LeaseGrantResponse
	e := b.call(ctx, "grant", "", func(ctx context.Context) (err error) {
		answer, err = b.leases.LeaseGrant(ctx, &pb.LeaseGrantRequest{ID: int64(id), TTL: seconds}, grpc.WaitForReady(true))
		return clientv3.ContextError(ctx, err)
	})
	if e != nil {
		return broker.Session{}, e
	}
	if answer.ID != int64(id) || answer.TTL < seconds {
		// Keys of no session would stay for ever. What was granted, if it was,
		// expires.
		return broker.Session{}, broker.NewError("grant", "", broker.ErrUnavailable, errMisfit)
	}
	return broker.Session{
		ID:  broker.SessionID(answer.ID),
		TTL: time.Duration(answer.TTL) * time.Second,
	}, nil
}

// renewLease renews a lease once. The client's KeepAliveOnce is not used because it
// repeats without a pause while a member answers at once that it cannot.
func (b *Broker) renewLease(ctx context.Context, id broker.SessionID) (time.Duration, *broker.Error) {
	return anywhere(ctx, b, "keepalive", "", b.toAll(), func(ctx context.Context) (time.Duration, error) {
		// Ending the context is what ends the stream.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := b.leases.LeaseKeepAlive(forStream(ctx))
		if err != nil {
			return 0, err
		}
		sent := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)})
		// Why a stream has ended only the receiving side knows.
		answer, err := stream.Recv()
		switch {
		case err != nil:
			return 0, err
		case sent != nil:
			return 0, sent
		case answer.TTL <= 0:
			// This is how etcd says that it has no such lease.
			return 0, rpctypes.ErrLeaseNotFound
		}
		return time.Duration(answer.TTL) * time.Second, nil
	})
}

// revokeLease ends a lease and deletes its keys. One that is gone is no error.
func (b *Broker) revokeLease(ctx context.Context, id broker.SessionID) error {
	e := b.call(ctx, "revoke", "", func(ctx context.Context) error {
		_, err := b.leases.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(id)}, grpc.WaitForReady(true))
		return clientv3.ContextError(ctx, err)
	})
	if e != nil && e.Kind == broker.ErrSessionExpired {
		return nil
	}
	return writing(e)
}
