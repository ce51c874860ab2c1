package drivertest_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// dying is a connection that dies after some requests: the answer to the last one is lost,
// and no more are sent. Leases are granted late.
type dying struct {
	pb.KVClient
	pb.LeaseClient
	left atomic.Int64
	late time.Duration
}

func (d *dying) Txn(ctx context.Context, r *pb.TxnRequest, options ...grpc.CallOption) (*pb.TxnResponse, error) {
	return beforeDeath(d, func() (*pb.TxnResponse, error) { return d.KVClient.Txn(ctx, r, options...) })
}

func (d *dying) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest, options ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	return beforeDeath(d, func() (*pb.LeaseGrantResponse, error) {
		if d.late == 0 {
			return d.LeaseClient.LeaseGrant(ctx, r, options...)
		}
		time.AfterFunc(d.late, func() { _, _ = d.LeaseClient.LeaseGrant(context.WithoutCancel(ctx), r, options...) })
		return nil, errDead
	})
}

func (d *dying) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest, options ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	return beforeDeath(d, func() (*pb.LeaseRevokeResponse, error) { return d.LeaseClient.LeaseRevoke(ctx, r, options...) })
}

func beforeDeath[A any](d *dying, ask func() (*A, error)) (*A, error) {
	left := d.left.Add(-1)
	if left < 0 {
		return nil, errDead
	}
	answer, err := ask()
	if left == 0 {
		return nil, errDead
	}
	return answer, err
}

var errDead = status.Error(codes.Unavailable, "error reading from server: EOF")

// If a grant fails at any step, or a frozen member carries it out late, the other sessions
// end the session.
func TestGrant_WhatItLeavesBehindIsEndedByTheOthers(t *testing.T) {
	for requests := range 5 {
		synctest.Test(t, func(t *testing.T) { grantUntilDeath(t, requests, 0) })
	}
	synctest.Test(t, func(t *testing.T) { grantUntilDeath(t, 2, 40*time.Second) })
}

// grantUntilDeath grants a session through a connection that dies after some requests, and
// checks what is left once another session has observed it.
func grantUntilDeath(t *testing.T, requests int, late time.Duration) {
	const ttl = 5 * time.Second
	var client *dying
	s := startServer(t, embedded.Config{
		UnsafeNoFsync: true,
		Between: func(txns pb.KVClient, leases pb.LeaseClient) (pb.KVClient, pb.LeaseClient) {
			client = &dying{KVClient: txns, LeaseClient: leases}
			client.left.Store(1 << 30)
			return client, client
		},
	})
	other := s.Broker()
	defer closing(t, other.Close)
	session, err := other.Grant(t.Context(), "/ns/sessions/", ttl)
	if err != nil {
		t.Fatal(err)
	}
	b := s.Broker()
	defer closing(t, b.Close)
	client.left.Store(int64(requests))
	client.late = late
	if _, err := b.Grant(t.Context(), "/ns/sessions/", ttl); (err == nil) != (requests > 3) {
		t.Errorf("granted with %d requests: %v", requests, err)
	}
	for range 60 {
		<-time.After(ttl / 3)
		if _, err := other.KeepAlive(t.Context(), session.ID); err != nil {
			t.Error(err)
		}
	}
	leases, bare, err := other.Leases(t.Context(), 100)
	kvs, _, listed := broker.Collect(t.Context(), other, "/ns/")
	if err != nil || listed != nil || leases != 1 || bare != 0 || len(kvs) != 2 {
		t.Errorf("after %d requests there are %d leases, %d of them without a key: %v; the keys are %q: %v", requests, leases, bare, err, names(kvs), listed)
	}
}

func names(kvs []broker.KV) string {
	var all []string
	for _, kv := range kvs {
		all = append(all, kv.Key)
	}
	return strings.Join(all, " ")
}
