//go:build e2e

package zookeeper

import (
	"fmt"
	"testing"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
)

// What is left of keys and sessions that are gone is swept away, level by level, and
// nobody who watches hears of it.
func TestSweep_EmptyDirectoriesGo(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick})
	config := testConfig(server.Address())
	b := openTest(t, config)
	defer closeTest(t, b)
	s, err := b.Grant(t.Context(), "", 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	_, before, err := broker.Collect(t.Context(), b, "/ns/")
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, b, broker.Txn{Then: []broker.Op{broker.PutSession("/ns/nodes/n/info", nil, s.ID)}}, put("/ns/tasks/a/b", nil), put("/ns/kept/a/b", nil))
	if err := b.Revoke(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, b, broker.Txn{Then: []broker.Op{broker.Delete("/ns/tasks/a/b"), broker.Delete("/ns/kept/a/b"), broker.Put("/ns/kept/c", nil)}})
	if _, _, err := broker.Collect(t.Context(), b, "/ns/"); err != nil { // finds what is empty
		t.Fatal(err)
	}
	left := []string{"/ns", "/ns/kept", "/ns/kept/c"}
	for range 4 {
		b.sweepDirectories(t.Context())
	}
	l, err := b.linked(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := b.walk(t.Context(), l, true, config.Chroot+"/ns")
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range w.nodes {
		if i >= len(left) || n.path != config.Chroot+left[i] {
			t.Errorf("%s is left", n.path)
		}
	}
	events := 0
	mark := mustCommit(t, b, put("/ns/tasks/a/b", []byte("again")))[0].Revision
	for batch, err := range b.Watch(t.Context(), "/ns/", before+1) {
		if err != nil {
			t.Fatal(err)
		}
		if events += len(batch.Events); batch.Revision >= mark {
			break
		}
	}
	if events != 8 {
		t.Errorf("%d events were seen, want 4 puts, 3 deletions and a put", events)
	}
}

// Twenty thousand tasks, with the limits that servers have by default: lists of
// children, listings, watches and the deletion of all of it.
func TestBroker_TwentyThousandTasksInOneNamespace(t *testing.T) {
	server := zktest.Start(t, zktest.Options{Tick: testTick, MessageBytesMax: MessageBytesDefault})
	config := testConfig(server.Address())
	config.MessageBytes = 0
	b, other := openTest(t, config), openTest(t, config)
	defer closeTest(t, b)
	defer closeTest(t, other)
	_, first, err := broker.Collect(t.Context(), other, "/ns/tasks/")
	if err != nil {
		t.Fatal(err)
	}
	const n, batch = 20_000, 500
	name := func(i int) string { return fmt.Sprintf("/ns/tasks/a-task-with-a-name-of-the-usual-length-%06d", i) }
	began := time.Now()
	for i := 0; i < n; i += batch {
		var txns []broker.Txn
		for k := range batch {
			txns = append(txns, broker.Txn{If: []broker.Cond{broker.Absent(name(i + k))},
				Then: []broker.Op{broker.Put(name(i+k), []byte("{}")), broker.Put(name(i+k)+"/props", []byte("{}"))}})
		}
		mustCommit(t, b, txns...)
	}
	t.Logf("submitted %.0f/s", n/time.Since(began).Seconds())
	began = time.Now()
	kvs, _, err := broker.Collect(t.Context(), other, "/ns/tasks/")
	if err != nil || len(kvs) != 2*n {
		t.Fatalf("%d keys are listed (%v), want %d", len(kvs), err, 2*n)
	}
	t.Logf("listed in %v", time.Since(began).Round(time.Millisecond))
	seen := 0
	for batch, err := range other.Watch(t.Context(), "/ns/tasks/", first+1) {
		if err != nil {
			t.Fatal(err)
		}
		if seen += len(batch.Events); seen >= 2*n {
			break
		}
	}
	buckets := ask(t, plain(t, server.Address()), wire.MultiRead([]wire.Read{wire.GetChildren(config.Chroot + "/ns/tasks")})).Results[0]
	if len(buckets.Children) != 256 {
		t.Errorf("%d buckets", len(buckets.Children))
	}
	began = time.Now()
	for i := 0; i < n; i += batch {
		var txns []broker.Txn
		for k := range batch {
			txns = append(txns, broker.Txn{Then: []broker.Op{broker.Delete(name(i + k)), broker.DeleteTree(name(i+k) + "/")}})
		}
		mustCommit(t, b, txns...)
	}
	t.Logf("deleted %.0f/s", n/time.Since(began).Seconds())
	mustCommit(t, b, broker.Txn{Then: []broker.Op{broker.DeleteTree("/ns/")}})
}
