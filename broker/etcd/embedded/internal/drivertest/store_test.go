package drivertest_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// fast configures a server for tests: no fsync, and sessions from one second on.
func fast() embedded.Config {
	return embedded.Config{UnsafeNoFsync: true, Tick: 10 * time.Millisecond}
}

func startServer(t *testing.T, config embedded.Config) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closing(t, s.Close) })
	return s
}

// closing calls a Close method.
func closing(t *testing.T, end func() error) {
	t.Helper()
	if err := end(); err != nil {
		t.Error(err)
	}
}

func mustCommit(t *testing.T, b broker.Broker, txns ...broker.Txn) []broker.Result {
	t.Helper()
	results := b.Commit(t.Context(), txns...)
	for i, r := range results {
		if r.Err != nil {
			t.Fatalf("transaction %d: %v", i, r.Err)
		}
	}
	return results
}

func put(key string) broker.Txn { return broker.Txn{Then: []broker.Op{broker.Put(key, nil)}} }

func TestAKeysCreationHasTheRevisionOfItsResult(t *testing.T) {
	b := startServer(t, fast()).Broker()
	var txns []broker.Txn
	for i := range 300 {
		key := fmt.Sprintf("/a/%03d", i)
		txns = append(txns, broker.Txn{If: []broker.Cond{broker.Absent(key)}, Then: []broker.Op{broker.Put(key, nil)}})
	}
	results := mustCommit(t, b, txns...)
	requests := map[broker.Revision]int{}
	for i, r := range results {
		requests[r.Revision]++
		kv, err := b.Get(t.Context(), fmt.Sprintf("/a/%03d", i))
		if err != nil || kv.Created != r.Revision {
			t.Errorf("%d: created at %d (%v), and the result says %d", i, kv.Created, err, r.Revision)
		}
	}
	if len(requests) != 3 {
		t.Errorf("300 transactions took the revisions %v; three requests do", requests)
	}
}

// TestARevisionIsNeverDivided has a late watch of more than the 1,000 revisions that etcd
// sends at once, of three changes each.
func TestARevisionIsNeverDivided(t *testing.T) {
	b := startServer(t, fast()).Broker()
	const revisions = 2500
	var start broker.Revision
	for i := range revisions {
		var txn broker.Txn
		for n := range 3 {
			txn.Then = append(txn.Then, broker.Put(fmt.Sprintf("/a/%d/%d", i%7, n), nil))
		}
		if r := mustCommit(t, b, txn)[0].Revision; i == 0 {
			start = r
		}
	}
	next := start
	for batch, err := range b.Watch(t.Context(), "/a/", start) {
		if err != nil {
			t.Fatal(err)
		}
		if len(batch.Events)%3 != 0 {
			t.Fatalf("%d events: a revision was divided", len(batch.Events))
		}
		for i, event := range batch.Events {
			if want := next + broker.Revision(i/3); event.KV.Modified != want {
				t.Fatalf("revision %d where %d is due", event.KV.Modified, want)
			}
		}
		next += broker.Revision(len(batch.Events) / 3)
		if batch.Revision != next-1 {
			t.Fatalf("the batch is complete up to %d and says %d", next-1, batch.Revision)
		}
		if next == start+revisions {
			return
		}
	}
}

func TestAWatchEndsWithTheServer(t *testing.T) {
	s := startServer(t, fast())
	b := s.Broker()
	last := mustCommit(t, b, put("/a/b"))[0].Revision
	var got error
	for _, err := range b.Watch(t.Context(), "/a/", last) {
		if got = err; err == nil {
			closing(t, s.Close)
		}
	}
	if !errors.Is(got, broker.ErrClosed) {
		t.Errorf("%v", got)
	}
}
