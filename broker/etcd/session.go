package etcd

import (
	"context"
	"errors"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/sessionkey"
)

// etcd does not decide whether a renewed session is alive. A former leader that was frozen
// and resumes can for a moment answer renewals that no other member knows of, and end leases
// that were renewed elsewhere (etcd 3.7.3, server.go, ensureLeadership and
// revokeExpiredLeases). So a renewal is a write, which takes a quorum. Another session ends a
// session if it has seen no renewal for a whole TTL, on the condition that there still is
// none. The lease only holds the keys together. It is so long that no member considers it
// expired.
//
//	<folder>/<id>/lease   exists as long as the session; its value is the TTL
//	<folder>/<id>/pulse   is put with each renewal; its value is the time, for people
//
//	grant              put both, then the lease, then put both on the lease
//	renewal            if lease exists:                          put pulse
//	without space      if lease exists:                          delete pulse
//	end, by others     if pulse is as it was a TTL ago:          delete lease, then
//	                                                             revoke the lease
//	end, unfinished    if pulse exists and lease does not:       revoke the lease, then
//	                                                             delete both
//	no pulse           if lease exists and pulse does not:       put pulse
//
// A grant puts the keys first, so that others find them if it fails or its answers are
// lost. A lease alone would stay for its whole TTL, unknown to anybody. Keys without a lease
// stay for at least grantLate: a member that was frozen may still carry out the grant.
//
// An etcd without space accepts only deletions. A session without a pulse cannot be ended.
// Once another session could put the pulse again, it has a whole TTL to renew itself.
//
// After Gray and Cheriton, Leases, 1989. The rule that observers measure from when they saw a
// renewal is that of client-go's leader election (kubernetes/client-go 9a8caafa,
// leaderelection.go).
const (
	// containerTTL is the TTL of the lease that holds a session's keys: much longer than a
	// member may be frozen. If nobody ends a session, its keys stay that long.
	containerTTL = 24 * time.Hour
	// grantLate is how long a grant that was not answered may still be carried out.
	grantLate = time.Minute
	// containerRenew is the time after which that lease is renewed.
	containerRenew = containerTTL / 8
)

// held is a session that this connection renews.
type held struct {
	folder string // ends in a slash
	ttl    time.Duration
	// leased is when its lease was last renewed.
	leased time.Time
}

// Grant implements broker.Broker.
func (b *Broker) Grant(ctx context.Context, folder string, ttl time.Duration) (broker.Session, error) {
	if err := checkTTL(ttl); err != nil {
		return broker.Session{}, err
	}
	seconds := wholeSeconds(ttl)
	if folder == "" {
		return b.grantLease(ctx, newLeaseID(), seconds)
	}
	if err := broker.CheckPrefix(folder); err != nil {
		return broker.Session{}, err
	}
	began := time.Now()
	session := broker.Session{ID: newLeaseID(), TTL: time.Duration(seconds) * time.Second}
	keys := func(lease broker.SessionID) []broker.Op {
		return []broker.Op{
			broker.PutSession(sessionkey.Of(folder, session.ID, sessionkey.Lease), []byte(session.TTL.String()), lease),
			broker.PutSession(sessionkey.Of(folder, session.ID, sessionkey.Pulse), sessionkey.Stamp(began), lease),
		}
	}
	if _, err := broker.CommitOne(ctx, b, broker.Txn{Then: keys(0)}); err != nil {
		return broker.Session{}, err
	}
	if _, err := b.grantLease(ctx, session.ID, int64(containerTTL.Seconds())); err != nil {
		if !broker.MaybeApplied(err) {
			b.discard(context.WithoutCancel(ctx), folder, session.ID)
		}
		return broker.Session{}, err
	}
	r, err := broker.CommitOne(ctx, b, broker.Txn{If: []broker.Cond{broker.Exists(sessionkey.Of(folder, session.ID, sessionkey.Lease))}, Then: keys(session.ID)})
	if err == nil && !r.OK {
		err = broker.NewError("grant", folder, broker.ErrUnavailable, errSlow)
	}
	if err != nil {
		b.discard(context.WithoutCancel(ctx), folder, session.ID)
		return broker.Session{}, err
	}
	b.hold(session.ID, held{folder: folder, ttl: session.TTL, leased: began})
	return session, nil
}

// errSlow is the cause if others have ended a session before its grant was complete.
var errSlow = errors.New("it took so long that others have ended it")

// discard ends sessions: it revokes their leases and deletes keys without one. If that fails,
// observers will do it.
func (b *Broker) discard(ctx context.Context, folder string, ids ...broker.SessionID) {
	var txns []broker.Txn
	for _, id := range ids {
		if b.revokeLease(ctx, id) == nil {
			txns = append(txns, broker.Txn{Then: []broker.Op{
				broker.Delete(sessionkey.Of(folder, id, sessionkey.Lease)), broker.Delete(sessionkey.Of(folder, id, sessionkey.Pulse)),
			}})
		}
	}
	b.Commit(ctx, txns...)
}

// KeepAlive implements broker.Broker. It succeeds if any member with a quorum can be
// reached.
func (b *Broker) KeepAlive(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	h, known := b.holds(id)
	if !known {
		var err error
		if h, err = b.granted(ctx, id); err != nil {
			return 0, err
		}
		if h.folder == "" {
			return b.renewLease(ctx, id)
		}
		b.hold(id, h)
	}
	err := b.renew(ctx, h.folder, id)
	if errors.Is(err, broker.ErrSessionExpired) {
		b.letGo(id)
	}
	if err != nil {
		return 0, err
	}
	return h.ttl, nil
}

// renew writes the pulse of a session.
func (b *Broker) renew(ctx context.Context, folder string, id broker.SessionID) error {
	lease := sessionkey.Of(folder, id, sessionkey.Lease)
	pulse := []byte(sessionkey.Of(folder, id, sessionkey.Pulse))
	put := &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: pulse, Value: sessionkey.Stamp(time.Now()), Lease: int64(id)}}
	err := b.renewBy(ctx, lease, &pb.RequestOp{Request: put})
	if errors.Is(err, broker.ErrNoSpace) {
		err = b.renewBy(ctx, lease, deletion(&pb.DeleteRangeRequest{Key: pulse}))
	}
	return err
}

// renewBy applies an operation on the condition that the session is alive.
func (b *Broker) renewBy(ctx context.Context, lease string, op *pb.RequestOp) error {
	r := &pb.TxnRequest{Compare: []*pb.Compare{comparison(broker.Exists(lease))}, Success: []*pb.RequestOp{op}}
	_, err := anywhere(ctx, b, "keepalive", "", b.toAll(), func(ctx context.Context) (*pb.TxnResponse, error) {
		answer, err := b.txns.Txn(ctx, r)
		switch {
		case err != nil:
		case !fits(r, answer):
			err = errMisfit
		case !answer.Succeeded:
			err = rpctypes.ErrLeaseNotFound
		}
		return answer, clientv3.ContextError(ctx, err)
	})
	return err
}

// granted returns a session that was granted through another connection. It has no folder if
// it is only a lease.
func (b *Broker) granted(ctx context.Context, id broker.SessionID) (held, error) {
	answer, err := anywhere(ctx, b, "keepalive", "", b.toAll(), func(ctx context.Context) (*pb.LeaseTimeToLiveResponse, error) {
		answer, err := b.leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: int64(id), Keys: true})
		if err == nil && answer.TTL <= 0 {
			err = rpctypes.ErrLeaseNotFound
		}
		return answer, clientv3.ContextError(ctx, err)
	})
	if err != nil {
		return held{}, err
	}
	for _, key := range answer.Keys {
		folder, of, _, ok := sessionkey.Parse(string(key))
		if !ok || of != id {
			continue
		}
		r, err := broker.CommitOne(ctx, b, broker.Txn{Then: []broker.Op{broker.Read(sessionkey.Of(folder, id, sessionkey.Lease))}})
		switch {
		case err != nil:
			return held{}, err
		case r.Reads[0] == nil: // it was ended
			return held{}, broker.NewError("keepalive", string(key), broker.ErrSessionExpired, nil)
		}
		ttl, err := time.ParseDuration(string(r.Reads[0].Value))
		if err != nil {
			return held{}, broker.NewError("keepalive", r.Reads[0].Key, broker.ErrInvalid, err)
		}
		return held{folder: folder, ttl: ttl}, nil
	}
	return held{}, nil
}

// Revoke implements broker.Broker.
func (b *Broker) Revoke(ctx context.Context, id broker.SessionID) error {
	err := b.revokeLease(ctx, id)
	if err == nil {
		b.letGo(id)
	}
	return err
}
