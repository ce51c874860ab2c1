package etcd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/windlass-go/windlass/broker"
)

// etcd does not decide whether a renewed session lives. A member that led, froze
// and resumes answers renewals for a moment that nobody else knows of, and ends leases
// that were renewed elsewhere (etcd 3.7.3, server.go, ensureLeadership and
// revokeExpiredLeases). So a renewal is a write, which takes a quorum. Another session
// declares the end if it has seen no renewal for a whole TTL, on the condition that
// there still is none. The lease only keeps the keys together. It is so long that no
// member takes it for expired.
//
//	<folder>/<id>/lease   lives while the session does; its value is the TTL
//	<folder>/<id>/pulse   is put with each renewal
//
//	grant              put both, then the lease, then put both on the lease
//	renewal            if lease is there:                        put pulse
//	without space      if lease is there:                        delete pulse
//	end, by others     if pulse is as it was a TTL ago:          delete lease, then
//	                                                             revoke the lease
//	ended by one       if pulse is there and lease is not:       revoke the lease, then
//	that died then                                               delete both
//	no pulse           if lease is there and pulse is not:       put pulse
//
// A grant puts the keys first, so that the others find what is left if it dies or its
// answers are lost. The lease alone would stay for its whole TTL, and nobody would know
// of it. Keys that are on no lease stay for at least grantLate: a member that was
// frozen may yet carry out the grant.
//
// An etcd without space accepts deletions only. A session without a pulse cannot be
// ended, and once somebody could put one again it has a whole TTL to answer.
//
// After Gray and Cheriton, Leases, 1989. The rule that others judge by when they saw a
// session renewed is that of client-go's leader election (kubernetes/client-go
// 9a8caafa, leaderelection.go).
const (
	keyLease = "lease"
	keyPulse = "pulse"
)

const (
	// containerTTL is the TTL of the lease that holds a session's keys: much longer than
	// any member is frozen and goes on. It is what nobody ends leaves behind.
	containerTTL = 24 * time.Hour
	// grantLate is for how long a grant that was not answered may yet be carried out.
	grantLate = time.Minute
	// containerRenew is how long it is left alone.
	containerRenew = containerTTL / 8
)

// held is a session that this connection renews.
type held struct {
	folder string // ends in a slash
	ttl    time.Duration
	// leased is when its lease was last renewed.
	leased time.Time
}

// sessionKey is one of a session's own keys.
func sessionKey(folder string, id broker.SessionID, name string) string {
	return fmt.Sprintf("%s%016x/%s", folder, uint64(id), name)
}

// parseSessionKey is the inverse of sessionKey.
func parseSessionKey(key string) (folder string, id broker.SessionID, name string, ok bool) {
	dir, name := path.Split(key)
	folder, hex := path.Split(strings.TrimSuffix(dir, "/"))
	n, err := strconv.ParseUint(hex, 16, 64)
	return folder, broker.SessionID(n), name, err == nil && len(hex) == 16 && (name == keyLease || name == keyPulse)
}

// Grant implements broker.Broker.
func (b *Broker) Grant(ctx context.Context, folder string, ttl time.Duration) (broker.Session, error) {
	if err := checkTTL(ttl); err != nil {
		return broker.Session{}, err
	}
	seconds := wholeSeconds(ttl)
	if folder == "" {
		session, e := b.grantLease(ctx, newLeaseID(), seconds)
		return session, writing(e)
	}
	if err := broker.CheckPrefix(folder); err != nil {
		return broker.Session{}, err
	}
	began := time.Now()
	session := broker.Session{ID: newLeaseID(), TTL: time.Duration(seconds) * time.Second}
	keys := func(lease broker.SessionID) []broker.Op {
		return []broker.Op{
			broker.PutSession(sessionKey(folder, session.ID, keyLease), []byte(session.TTL.String()), lease),
			broker.PutSession(sessionKey(folder, session.ID, keyPulse), nil, lease),
		}
	}
	if _, err := broker.CommitOne(ctx, b, broker.Txn{Then: keys(0)}); err != nil {
		return broker.Session{}, err
	}
	if _, e := b.grantLease(ctx, session.ID, int64(containerTTL.Seconds())); e != nil {
		if !broker.MaybeApplied(e) {
			b.discard(context.WithoutCancel(ctx), folder, session.ID)
		}
		return broker.Session{}, e
	}
	r, err := broker.CommitOne(ctx, b, broker.Txn{If: []broker.Cond{broker.Exists(sessionKey(folder, session.ID, keyLease))}, Then: keys(session.ID)})
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

// errSlow is of a session that others have ended before its grant was complete.
var errSlow = errors.New("it took so long that others have ended it")

// discard ends sessions for good: their leases, and what keys are on none. What fails is
// left to those who look.
func (b *Broker) discard(ctx context.Context, folder string, ids ...broker.SessionID) {
	var txns []broker.Txn
	for _, id := range ids {
		if b.revokeLease(ctx, id) == nil {
			txns = append(txns, broker.Txn{Then: []broker.Op{
				broker.Delete(sessionKey(folder, id, keyLease)), broker.Delete(sessionKey(folder, id, keyPulse)),
			}})
		}
	}
	b.Commit(ctx, txns...)
}

// KeepAlive implements broker.Broker. It succeeds as long as any member that has a
// quorum can be reached.
func (b *Broker) KeepAlive(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	h, known := b.holds(id)
	if !known {
		var e *broker.Error
		if h, e = b.granted(ctx, id); e != nil {
			return 0, writing(e)
		}
		if h.folder == "" {
			ttl, e := b.renewLease(ctx, id)
			return ttl, writing(e)
		}
		b.hold(id, h)
	}
	e := b.renew(ctx, h.folder, id)
	if e != nil {
		if e.Kind == broker.ErrSessionExpired {
			b.letGo(id)
		}
		return 0, e
	}
	return h.ttl, nil
}

// renew writes the pulse of a session.
func (b *Broker) renew(ctx context.Context, folder string, id broker.SessionID) *broker.Error {
	lease := sessionKey(folder, id, keyLease)
	pulse := sessionKey(folder, id, keyPulse)
	put := renewal(lease, &pb.RequestOp{Request: &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: []byte(pulse), Lease: int64(id)}}})
	e := b.renewBy(ctx, put)
	if e != nil && e.Kind == broker.ErrNoSpace {
		e = b.renewBy(ctx, renewal(lease, deletion(&pb.DeleteRangeRequest{Key: []byte(pulse)})))
	}
	return e
}

// renewal is the request that does something on the condition that the session lives.
func renewal(lease string, op *pb.RequestOp) *pb.TxnRequest {
	return &pb.TxnRequest{Compare: []*pb.Compare{comparison(broker.Exists(lease))}, Success: []*pb.RequestOp{op}}
}

func (b *Broker) renewBy(ctx context.Context, r *pb.TxnRequest) *broker.Error {
	_, e := anywhere(ctx, b, "keepalive", "", b.toAll(), func(ctx context.Context) (*pb.TxnResponse, error) {
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
	return e
}

// granted finds out about a session that was granted through another connection. One
// without a folder is a mere lease.
func (b *Broker) granted(ctx context.Context, id broker.SessionID) (h held, e *broker.Error) {
	answer, e := anywhere(ctx, b, "keepalive", "", b.toAll(), func(ctx context.Context) (*pb.LeaseTimeToLiveResponse, error) {
		answer, err := b.leases.LeaseTimeToLive(ctx, &pb.LeaseTimeToLiveRequest{ID: int64(id), Keys: true})
		if err == nil && answer.TTL <= 0 {
			err = rpctypes.ErrLeaseNotFound
		}
		return answer, clientv3.ContextError(ctx, err)
	})
	if e != nil {
		return held{}, e
	}
	for _, key := range answer.Keys {
		folder, of, _, ok := parseSessionKey(string(key))
		if !ok || of != id {
			continue
		}
		r, err := broker.CommitOne(ctx, b, broker.Txn{Then: []broker.Op{broker.Read(sessionKey(folder, id, keyLease))}})
		switch {
		case err != nil:
			return held{}, asError(err)
		case r.Reads[0] == nil: // the others have ended it
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

// asError is an error of a broker as what it is.
func asError(err error) *broker.Error {
	if e, ok := errors.AsType[*broker.Error](err); ok {
		return e
	}
	return broker.NewError("keepalive", "", broker.ErrUnavailable, err)
}

// Revoke implements broker.Broker.
func (b *Broker) Revoke(ctx context.Context, id broker.SessionID) error {
	err := b.revokeLease(ctx, id)
	if err == nil {
		b.letGo(id)
	}
	return err
}
