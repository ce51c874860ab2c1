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

// The directories of deleted keys are deleted, level by level, and watches do not see it.
func TestSweep_EmptyDirectoriesGo(t *testing.T) {
	_, config, b := startTest(t)
	s := mustGrant(t, b, 20*time.Second)
	_, before := mustList(t, b, "/ns/")
	mustCommit(t, b, putSession("/ns/nodes/n/info", s.ID), put("/ns/tasks/a/b", nil), put("/ns/kept/a/b", nil))
	if err := b.Revoke(t.Context(), s.ID); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, b, broker.Txn{Then: []broker.Op{broker.Delete("/ns/tasks/a/b"), broker.Delete("/ns/kept/a/b"), broker.Put("/ns/kept/c", nil)}})
	mustList(t, b, "/ns/") // finds the empty directories
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
	_, first := mustList(t, other, "/ns/tasks/")
	const n, batch = 20_000, 500
	name := func(i int) string { return fmt.Sprintf("/ns/tasks/a-task-with-a-name-of-the-usual-length-%06d", i) }
	commitAll := func(what string, txn func(name string) broker.Txn) {
		began := time.Now()
		for i := 0; i < n; i += batch {
			var txns []broker.Txn
			for k := range batch {
				txns = append(txns, txn(name(i+k)))
			}
			mustCommit(t, b, txns...)
		}
		t.Logf("%s %.0f/s", what, n/time.Since(began).Seconds())
	}
	commitAll("submitted", func(name string) broker.Txn {
		return broker.Txn{If: []broker.Cond{broker.Absent(name)},
			Then: []broker.Op{broker.Put(name, []byte("{}")), broker.Put(name+"/props", []byte("{}"))}}
	})
	if kvs, _ := mustList(t, other, "/ns/tasks/"); len(kvs) != 2*n {
		t.Fatalf("%d keys are listed, want %d", len(kvs), 2*n)
	}
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
	commitAll("deleted", func(name string) broker.Txn {
		return broker.Txn{Then: []broker.Op{broker.Delete(name), broker.DeleteTree(name + "/")}}
	})
	mustCommit(t, b, removeTree("/ns/"))
}
