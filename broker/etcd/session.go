package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
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

// KeepAlive implements broker.Broker. It gets through as long as any member that has a
// quorum can be reached.
func (b *Broker) KeepAlive(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	var ttl time.Duration
	e := b.call(ctx, "keepalive", "", func(ctx context.Context) (err error) {
		ttl, err = b.renew(ctx, id)
		return err
	})
	return ttl, writing(e)
}

// renewal is what came of one request for it.
type renewal struct {
	ttl time.Duration
	err error
}

// settled tells of an answer that no other member would change.
func (r renewal) settled() bool { return r.err == nil || errors.Is(r.err, rpctypes.ErrLeaseNotFound) }

// hedgeAfter is the part of an attempt's time in which the first member that is
// asked has to answer, and then any.
const hedgeAfter = 4

// renew asks one member, and all of them at once when that one has been silent for a
// while or cannot; and again when no answer has come of that. A connection that has died
// without a word looks alive for seconds, and requests take turns among all that look so:
// a node that still reaches one of three members could by bad luck miss it until its
// session is lost. All means the first one again, because others have had their turns
// since; as many in a row miss none, unless another one comes between them.
//
// After Dean and Barroso, The Tail at Scale, 2013: hedged requests.
func (b *Broker) renew(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	ask := func(ctx context.Context) renewal {
		r := b.renewOnce(ctx, id)
		// The others may be silent, and must not be waited for before it is asked again.
		for isNoLeader(r.err) && pause(ctx, leaderPause) {
			r = b.renewOnce(ctx, id)
		}
		return r
	}
	members := len(b.client.Endpoints())
	if members < 2 {
		r := ask(ctx)
		return r.ttl, r.err
	}
	var asked sync.WaitGroup
	defer asked.Wait()
	deadline, _ := ctx.Deadline() // every call has one
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan renewal, 1+(hedgeAfter-1)*members)
	asked.Go(func() { answers <- ask(ctx) })
	hedge := time.NewTicker(max(time.Until(deadline)/hedgeAfter, time.Millisecond))
	defer hedge.Stop()
	for sent, received := 1, 0; ; {
		select {
		case r := <-answers:
			received++
			switch {
			case r.settled(), sent > 1 && received == sent:
				return r.ttl, r.err
			case sent > 1:
				continue // others may yet answer
			}
		case <-hedge.C:
		}
		for i := 0; i < members && sent < cap(answers); i++ {
			asked.Go(func() { answers <- ask(ctx) })
			sent++
		}
	}
}

// renewOnce sends one renewal. The client's KeepAliveOnce is not used because it
// repeats without a pause while a member answers at once that it cannot.
func (b *Broker) renewOnce(ctx context.Context, id broker.SessionID) renewal {
	// Ending the context is what ends the stream.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := b.leases.LeaseKeepAlive(ctx)
	if err != nil {
		return renewal{err: err}
	}
	if err := stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(id)}); err != nil {
		// The reason is what the receiving side says; the sending side only
		// knows that the stream has ended.
		return receiveRenewal(stream, err)
	}
	return receiveRenewal(stream, nil)
}

func receiveRenewal(stream pb.Lease_LeaseKeepAliveClient, sent error) renewal {
	answer, err := stream.Recv()
	switch {
	case err != nil:
		return renewal{err: err}
	case sent != nil:
		return renewal{err: sent}
	case answer.TTL <= 0:
		// This is how etcd says that it has no such lease.
		return renewal{err: rpctypes.ErrLeaseNotFound}
	}
	return renewal{ttl: time.Duration(answer.TTL) * time.Second}
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
