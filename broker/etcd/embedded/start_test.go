package embedded_test

import (
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// fast configures a server for tests: no fsync, and sessions from one second on.
func fast(dir string) embedded.Config {
	return embedded.Config{Dir: dir, UnsafeNoFsync: true, Tick: 10 * time.Millisecond}
}

// withSocket is fast with a socket.
func withSocket(dir string) embedded.Config {
	config := fast(dir)
	config.Socket = true
	return config
}

func start(t *testing.T, config embedded.Config) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func dial(t *testing.T, dir string) *etcd.Broker {
	t.Helper()
	b, err := embedded.Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func put(key string) broker.Txn { return broker.Txn{Then: []broker.Op{broker.Put(key, nil)}} }

func mustPut(t *testing.T, b broker.Broker, key string) broker.Revision {
	t.Helper()
	return mustCommit(t, b, broker.Put(key, nil))
}

func mustCommit(t *testing.T, b broker.Broker, ops ...broker.Op) broker.Revision {
	t.Helper()
	r, err := broker.CommitOne(t.Context(), b, broker.Txn{Then: ops})
	if err != nil {
		t.Fatal(err)
	}
	return r.Revision
}

func mustGrant(t *testing.T, b broker.Broker, folder string, ttl time.Duration) broker.Session {
	t.Helper()
	session, err := b.Grant(t.Context(), folder, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return session
}
