package drivertest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// fast is a server for tests: no fsync, and sessions from one second on.
func fast() embedded.Config {
	return embedded.Config{UnsafeNoFsync: true, Tick: 10 * time.Millisecond}
}

func startServer(t *testing.T, config embedded.Config) *embedded.Server {
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

func TestTransactionsActInOrderAlthoughTheyShareRequests(t *testing.T) {
	b := startServer(t, fast()).Broker()
	read := broker.Txn{Then: []broker.Op{broker.Read("/a/b")}}
	results := mustCommit(t, b,
		broker.Txn{If: []broker.Cond{broker.Absent("/a/b")}, Then: []broker.Op{broker.Put("/a/b", []byte("1"))}},
		broker.Txn{If: []broker.Cond{broker.Absent("/a/b")}, Then: []broker.Op{broker.Put("/a/b", []byte("2"))}},
		read,
		broker.Txn{Then: []broker.Op{broker.DeleteTree("/a/")}},
		read,
		broker.Txn{Then: []broker.Op{broker.Put("/a/b", []byte("3")), broker.Read("/a/b")}},
		read,
	)
	if !results[0].OK || results[1].OK {
		t.Errorf("the second claim succeeded: %+v", results[:2])
	}
	if string(results[2].Reads[0].Value) != "1" || results[4].Reads[0] != nil || results[5].Reads[0] != nil || string(results[6].Reads[0].Value) != "3" {
		t.Errorf("%+v", results)
	}
}

func TestARefusedTransactionHarmsNoOther(t *testing.T) {
	b := startServer(t, fast()).Broker()
	large := bytes.Repeat([]byte("x"), broker.ValueBytesMax)
	txns := []broker.Txn{
		put("/a"),
		{Then: []broker.Op{broker.PutSession("/b", nil, 42)}},
		put("/c"),
		{Then: []broker.Op{broker.Put("/d/1", large), broker.Put("/d/2", large), broker.Put("/d/3", large)}},
		{Then: []broker.Op{broker.Put("no slash", nil)}},
		put("/e"),
	}
	want := []error{nil, broker.ErrSessionExpired, nil, broker.ErrTooLarge, broker.ErrInvalid, nil}
	for i, r := range b.Commit(t.Context(), txns...) {
		if !errors.Is(r.Err, want[i]) || broker.MaybeApplied(r.Err) || r.OK != (want[i] == nil) {
			t.Errorf("transaction %d: %+v; want %v", i, r, want[i])
		}
	}
}

// TestAListingIsOneSnapshot changes keys while their listing goes from page to
// page.
func TestAListingIsOneSnapshot(t *testing.T) {
	b := startServer(t, fast()).Broker()
	var txns []broker.Txn
	for i := range 1000 {
		txns = append(txns, put(fmt.Sprintf("/a/%04d", i)))
	}
	mustCommit(t, b, txns...)
	pages, keys := 0, 0
	var revision broker.Revision
	for page, err := range b.List(t.Context(), "/a/") {
		if err != nil {
			t.Fatal(err)
		}
		if pages++; pages == 1 {
			revision = page.Revision
		}
		for _, kv := range page.KVs {
			if want := fmt.Sprintf("/a/%04d", keys); kv.Key != want || page.Revision != revision {
				t.Fatalf("%s at %d; want %s at %d", kv.Key, page.Revision, want, revision)
			}
			keys++
		}
		mustCommit(t, b, broker.Txn{Then: []broker.Op{broker.DeleteTree("/a/")}}, put("/a/new"))
	}
	if keys != 1000 || pages < 2 {
		t.Errorf("%d keys on %d pages", keys, pages)
	}
}

// TestARevisionIsNeverDivided has more than the 1,000 revisions that etcd sends
// at once, of three changes each, and a watch that comes late.
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

func TestAWatchOfForgottenHistorySaysSo(t *testing.T) {
	s := startServer(t, fast())
	b := s.Broker()
	var last broker.Revision
	for range 5 {
		last = mustCommit(t, b, put("/a/b"))[0].Revision
	}
	if err := s.Compact(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	for _, err := range b.Watch(t.Context(), "/a/", last-2) {
		if !errors.Is(err, broker.ErrCompacted) {
			t.Errorf("%v", err)
		}
	}
	for batch, err := range b.Watch(t.Context(), "/a/", last) {
		if err != nil || batch.Revision != last || len(batch.Events) != 1 {
			t.Errorf("from the compacted revision on: %+v, %v", batch, err)
		}
		break
	}
}

func TestAWatchEndsWithItsConnection(t *testing.T) {
	s := startServer(t, fast())
	ends := []struct {
		name string
		end  func(*etcd.Broker) error
	}{
		{"closed by its owner", (*etcd.Broker).Close},
		{"closed with the server", func(*etcd.Broker) error { return s.Close() }},
	}
	for _, c := range ends {
		b := s.Broker()
		last := mustCommit(t, b, put("/a/b"))[0].Revision
		var got error
		for _, err := range b.Watch(t.Context(), "/a/", last) {
			if got = err; err != nil {
				continue
			}
			if err := c.end(b); err != nil {
				t.Fatal(err)
			}
		}
		if !errors.Is(got, broker.ErrClosed) {
			t.Errorf("%s: %v", c.name, got)
		}
		if _, err := b.Get(t.Context(), "/a/b"); !errors.Is(err, broker.ErrClosed) {
			t.Errorf("%s: a later call: %v", c.name, err)
		}
	}
}

func TestACallWhoseContextHasEndedSendsNothing(t *testing.T) {
	b := startServer(t, fast()).Broker()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := broker.CommitOne(ctx, b, put("/a"))
	if !errors.Is(err, broker.ErrUnavailable) || !errors.Is(err, context.Canceled) || broker.MaybeApplied(err) {
		t.Errorf("%v", err)
	}
}
