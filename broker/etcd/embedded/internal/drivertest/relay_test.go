//go:build e2e

package drivertest_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
)

// relay passes on the data between a client and a member until it is silent.
type relay struct {
	listener net.Listener
	target   string
	silent   atomic.Bool
	passed   atomic.Int64 // bytes, both ways
	pumps    sync.WaitGroup
}

func startRelay(t *testing.T, target string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, target: target}
	r.pumps.Go(r.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		r.pumps.Wait()
	})
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", r.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		r.pumps.Go(func() { r.pump(far, near) })
		r.pumps.Go(func() { r.pump(near, far) })
	}
}

// pump ends when either side has closed. While silent, it drops the data, after which the
// connection cannot be used again.
func (r *relay) pump(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if r.silent.Load() {
			continue
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
		r.passed.Add(int64(n))
	}
}

// TestEachRenewalReachesTheOneMemberThatAnswers silences all members but one, for each of
// them. Every call must reach that one, whatever other requests are made.
func TestEachRenewalReachesTheOneMemberThatAnswers(t *testing.T) {
	c := startCluster(t)
	for heard := range c.members {
		for _, folder := range []string{"/sessions/", ""} {
			renewThroughOne(t, c, heard, folder)
		}
	}
}

// renewThroughOne renews a session while only one member answers.
func renewThroughOne(t *testing.T, c *cluster, heard int, folder string) {
	b, session, relays := openThroughRelays(t, c, folder)
	for i, r := range relays {
		r.silent.Store(i != heard)
	}
	stop := makeRequests(t, b)
	for range c.members {
		if _, err := b.KeepAlive(t.Context(), session); err != nil {
			t.Errorf("only member %d answers, folder %q: %v", heard, folder, err)
		}
	}
	stop()
}

// TestAReadIsMadeOfAnotherMemberWhenOneIsSilent silences one member, and then all.
func TestAReadIsMadeOfAnotherMemberWhenOneIsSilent(t *testing.T) {
	c := startCluster(t)
	b, _, relays := openThroughRelays(t, c, "/sessions/")
	relays[0].silent.Store(true)
	for range 2 * len(c.members) {
		if _, err := b.Get(t.Context(), "/nothing"); !errors.Is(err, broker.ErrNotFound) {
			t.Errorf("get while one is silent: %v", err)
		}
		if _, _, err := broker.Collect(t.Context(), b, "/nothing/"); err != nil {
			t.Errorf("list while one is silent: %v", err)
		}
		if _, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: []broker.Op{broker.Read("/nothing")}}); err != nil {
			t.Errorf("a transaction that only reads while one is silent: %v", err)
		}
	}
	for _, r := range relays {
		r.silent.Store(true)
	}
	_, err := b.Get(t.Context(), "/nothing")
	if err == nil || !slices.ContainsFunc(relays, func(r *relay) bool { return strings.Contains(err.Error(), "no answer from "+r.address()+" within") }) {
		t.Errorf("get while all are silent: %v, want one that names the member", err)
	}
}

// openThroughRelays grants a session over relays to all members, each of which has answered a
// request.
func openThroughRelays(t *testing.T, c *cluster, folder string) (*etcd.Broker, broker.SessionID, []*relay) {
	t.Helper()
	relays := make([]*relay, len(c.members))
	endpoints := make([]string, len(c.members))
	for i, m := range c.members {
		relays[i] = startRelay(t, m.config.Client)
		endpoints[i] = relays[i].address()
	}
	b := openAt(t, endpoints)
	session, err := b.Grant(t.Context(), folder, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	renewEverywhere(t, b, session.ID, relays)
	return b, session.ID, relays
}

// makeRequests makes other requests until stop is called.
func makeRequests(t *testing.T, b broker.Broker) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var others sync.WaitGroup
	others.Go(func() {
		tick := time.NewTicker(7 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			others.Go(func() { _, _ = b.Get(ctx, "/nothing") })
			<-tick.C
		}
	})
	return func() {
		cancel()
		others.Wait()
	}
}

// renewEverywhere renews until every member has answered a request.
func renewEverywhere(t *testing.T, b broker.Broker, id broker.SessionID, relays []*relay) {
	t.Helper()
	// A connection gets requests once its handshake is complete.
	const greetings = 4 << 10
	for slices.ContainsFunc(relays, func(r *relay) bool { return r.passed.Load() < greetings }) {
		if _, err := b.KeepAlive(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}
