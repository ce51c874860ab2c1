package embedded_test

import (
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// fast is a server for tests: no fsync, and sessions from one second on.
func fast(dir string) embedded.Config {
	return embedded.Config{Dir: dir, UnsafeNoFsync: true, Tick: 10 * time.Millisecond}
}

// withSocket is fast, for several processes.
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

func put(key string) broker.Txn { return broker.Txn{Then: []broker.Op{broker.Put(key, nil)}} }

func mustPut(t *testing.T, b broker.Broker, key string) broker.Revision {
	t.Helper()
	r, err := broker.CommitOne(t.Context(), b, put(key))
	if err != nil {
		t.Fatal(err)
	}
	return r.Revision
}
