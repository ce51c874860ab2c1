package etcd

import (
	"context"
	"fmt"
	"math"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/windlass-go/windlass/broker"
)

// ttlSecondsMax is the longest lease that etcd grants, some 285 years.
const ttlSecondsMax = clientv3.MaxLeaseTTL

// wholeSeconds rounds up, so that nothing vanishes earlier than asked for.
func wholeSeconds(ttl time.Duration) int64 { return int64(math.Ceil(ttl.Seconds())) }

// Grant implements broker.Broker.
func (b *Broker) Grant(ctx context.Context, ttl time.Duration) (broker.Session, error) {
	if ttl <= 0 || wholeSeconds(ttl) > ttlSecondsMax {
		return broker.Session{}, broker.NewError("grant", "", broker.ErrInvalid,
			fmt.Errorf("TTL %v: it is positive and at most %d seconds", ttl, int64(ttlSecondsMax)))
	}
	session, e := b.grant(ctx, "grant", wholeSeconds(ttl))
	return session, writing(e)
}

func (b *Broker) grant(ctx context.Context, op string, seconds int64) (broker.Session, *broker.Error) {
	var answer *clientv3.LeaseGrantResponse
	e := b.call(ctx, op, "", func(ctx context.Context) (err error) {
		answer, err = b.client.Lease.Grant(ctx, seconds)
		return err
	})
	if e != nil {
		return broker.Session{}, e
	}
	if answer.ID == 0 || answer.TTL < seconds {
		// Keys of no session would stay for ever. What was granted, if it was,
		// expires.
		return broker.Session{}, broker.NewError(op, "", broker.ErrUnavailable, errMisfit)
	}
	return broker.Session{
		ID:  broker.SessionID(answer.ID),
		TTL: time.Duration(answer.TTL) * time.Second,
	}, nil
}

// KeepAlive implements broker.Broker. It renews along a stream of its own, so
// that a second attempt may reach another member.
func (b *Broker) KeepAlive(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	var ttl time.Duration
	e := b.call(ctx, "keepalive", "", func(ctx context.Context) (err error) {
		ttl, err = b.renew(ctx, id)
		return err
	})
	return ttl, writing(e)
}

// renew sends one renewal. The client's KeepAliveOnce is not used because it
// repeats without a pause while a member answers at once that it cannot.
func (b *Broker) renew(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	// Ending the context is what ends the stream.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := b.leases.LeaseKeepAlive(ctx)
	if err != nil {
		return 0, err
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		// The reason is what the receiving side says; the sending side only
		// knows that the stream has ended.
		_, err = receiveRenewal(stream, err)
		return 0, err
	}
	return receiveRenewal(stream, nil)
}

func receiveRenewal(stream pb.Lease_LeaseKeepAliveClient, sent error) (time.Duration, error) {
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
}

// Revoke implements broker.Broker.
func (b *Broker) Revoke(ctx context.Context, id broker.SessionID) error {
	e := b.call(ctx, "revoke", "", func(ctx context.Context) error {
		_, err := b.client.Lease.Revoke(ctx, clientv3.LeaseID(id))
		return err
	})
	if e != nil && e.Kind == broker.ErrSessionExpired {
		return nil
	}
	return writing(e)
}

// Compact forgets the history before a revision and waits until it is gone from
// disk. It is no part of broker.Broker: a cluster compacts by its own settings,
// and this is for maintenance and tests.
func (b *Broker) Compact(ctx context.Context, revision broker.Revision) error {
	e := b.call(ctx, "compact", "", func(ctx context.Context) error {
		_, err := b.client.KV.Compact(ctx, int64(revision), clientv3.WithCompactPhysical())
		return err
	})
	return writing(e)
}
