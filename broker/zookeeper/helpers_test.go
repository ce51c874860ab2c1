//go:build e2e

package zookeeper

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

const (
	testTick = 200 * time.Millisecond
	// patience limits the time to wait on a loaded machine.
	patience = 2 * time.Minute
)

var (
	chroots  atomic.Int64
	everyone = []wire.ACL{{Perms: wire.PermAll, Scheme: "world", ID: "anyone"}}
)

// testConfig configures a connection to servers of zktest, with its own chroot.
func testConfig(addresses ...string) Config {
	return Config{Servers: addresses, Chroot: fmt.Sprintf("/c%d", chroots.Add(1)), TickTime: testTick, MessageBytes: zktest.MessageBytesDefault,
		DialTimeout: time.Minute, RequestTimeout: 20 * time.Second}
}

// openTest opens a broker that is closed at the end of the test.
func openTest(t testing.TB, config Config) *Broker {
	t.Helper()
	b, err := Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// startTest starts a server and opens a broker on it.
func startTest(t *testing.T) (*zktest.Server, Config, *Broker) {
	t.Helper()
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	config := testConfig(server.Address())
	return server, config, openTest(t, config)
}

func mustGrant(t testing.TB, b *Broker, ttl time.Duration) broker.Session {
	t.Helper()
	s, err := b.Grant(t.Context(), "", ttl)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(key string, value []byte) broker.Txn {
	return broker.Txn{Then: []broker.Op{broker.Put(key, value)}}
}

func putSession(key string, id broker.SessionID) broker.Txn {
	return broker.Txn{Then: []broker.Op{broker.PutSession(key, nil, id)}}
}

func remove(key string) broker.Txn { return broker.Txn{Then: []broker.Op{broker.Delete(key)}} }

func removeTree(prefix string) broker.Txn {
	return broker.Txn{Then: []broker.Op{broker.DeleteTree(prefix)}}
}

func mustCommit(t testing.TB, b broker.Broker, txns ...broker.Txn) []broker.Result {
	t.Helper()
	results := b.Commit(t.Context(), txns...)
	for i, r := range results {
		if r.Err != nil || !r.OK {
			t.Fatalf("transaction %d: %+v", i, r)
		}
	}
	return results
}

// mustList returns the keys below a prefix and the revision of the listing.
func mustList(t testing.TB, b broker.Broker, prefix string) ([]broker.KV, broker.Revision) {
	t.Helper()
	kvs, revision, err := broker.Collect(t.Context(), b, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return kvs, revision
}

// plain connects as any other program would.
func plain(t testing.TB, address string, change ...func(*wire.Config)) *wire.Conn {
	t.Helper()
	start := time.Now()
	config := wire.Config{Address: address, Timeout: 4 * time.Second, Now: func() time.Duration { return time.Since(start) }}
	for _, f := range change {
		f(&config)
	}
	c, err := wire.Dial(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func ask(t testing.TB, c *wire.Conn, r wire.Request) wire.Reply {
	t.Helper()
	reply, err := c.Do(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return reply
}

// read reads a znode as any other program would.
func read(t testing.TB, server *zktest.Server, path string) wire.Result {
	t.Helper()
	return ask(t, plain(t, server.Address()), wire.MultiRead([]wire.Read{wire.GetData(path)})).Results[0]
}
