package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/session"
)

const tasks = 10_000

// start runs an etcd in this process that writes to disk, as in production.
func start(b *testing.B) *embedded.Server {
	b.Helper()
	dir := b.TempDir()
	must(b, os.Chmod(dir, 0o700))
	server, err := embedded.Start(b.Context(), embedded.Config{Dir: dir})
	must(b, err)
	b.Cleanup(func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	})
	return server
}

// rawClaims claims n tasks in bulk with plain transactions, and returns the rate. Every
// call needs another prefix.
func rawClaims(b *testing.B, store broker.Broker, prefix string, n int) float64 {
	b.Helper()
	session, err := store.Grant(b.Context(), "", time.Minute)
	must(b, err)
	submit := make([]broker.Txn, n)
	claim := make([]broker.Txn, n)
	for i := range n {
		key := fmt.Sprintf("%s/tasks/%06d", prefix, i)
		submit[i].Then = []broker.Op{broker.Put(key, nil)}
		claim[i] = broker.Txn{
			If:   []broker.Cond{broker.Exists(key), broker.Absent(key + "/owner")},
			Then: []broker.Op{broker.PutSession(key+"/owner", []byte(`{"node":"n"}`), session.ID)},
		}
	}
	commitAll(b, store, submit)
	began := time.Now()
	commitAll(b, store, claim)
	return float64(n) / time.Since(began).Seconds()
}

// placeTTL is the TTL of the nodes of BenchmarkPlace. It is the shortest one, because
// the benchmark waits for the expiry of a killed node.
const placeTTL = 5 * time.Second

// BenchmarkPlace submits long-lived tasks that wait for another one. It reports the rate
// at which three nodes start them once that one is gone. That excludes the time to
// submit them, which BenchmarkNodes includes. Then it kills one of the nodes with
// SIGKILL, and reports the time from the expiry of its session, as a watch sees it,
// until all of its tasks run on the two others. For comparison it reports plain claims
// in bulk on the same etcd. The killed node and each member of etcd are processes of
// their own.
func BenchmarkPlace(b *testing.B) {
	for _, members := range []int{1, 3} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			for range b.N {
				placeAndKill(b, members)
			}
		})
	}
}

func placeAndKill(b *testing.B, members int) {
	f := startFleet(b, members, 2, windlass.Config{SessionTTL: placeTTL})
	raw := rawClaims(b, f.open(), "/raw", tasks)
	c := startCrew(b, victimStore{etcd: f.etcd}, 1, f.changed)
	must(b, c.ready(b.Context()))
	client := newClient(f.b, f.open())
	const awaited = "awaited" // no node can run it, so it exists until it is deleted
	must(b, client.Submit(b.Context(), windlass.Submission{ID: awaited, Spec: windlass.Spec{Type: awaited}}))
	f.submit(tasks, awaited)
	<-time.After(time.Second) // until the nodes have seen the submitted tasks
	began := time.Now()
	must(b, client.Delete(b.Context(), awaited))
	lost := 0
	if err := c.wait(b.Context(), func() bool {
		lost = int(c.said[0].Done)
		return int(f.running.Load())+lost == tasks
	}); err != nil {
		b.Fatal(err)
	}
	rate := tasks / time.Since(began).Seconds()
	b.ReportMetric(raw, "raw-claims/s")
	b.ReportMetric(rate, "placed/s")
	b.ReportMetric(rate/raw, "placed-of-raw")
	<-time.After(12 * time.Second) // what was claimed just before would be started one by one
	victim := c.workers[0]
	victim.kill()
	running, took := f.until(&f.running, tasks, f.vanished("w0"))
	if running < tasks {
		b.Fatalf("%d of %d tasks run", running, tasks)
	}
	rate = float64(lost) / took.Seconds()
	b.ReportMetric(rate, "restarted/s")
	b.ReportMetric(rate/raw, "restarted-of-raw")
	b.ReportMetric(milliseconds(took), "all-restarted-ms")
	_ = victim.close() // it was killed
	f.end()
}

// systemWaiting is the system of a worker whose tasks only wait.
const systemWaiting = "waiting"

// victimStore has the order for such a worker.
type victimStore struct {
	store
	etcd *etcdCluster
}

func (s victimStore) order() workerOrder {
	return workerOrder{System: systemWaiting, Address: s.etcd.endpoints[0]}
}

func consumeWaiting(ctx context.Context, o workerOrder, c *counter) error {
	return runNode(ctx, o, windlass.Config{
		SessionTTL: placeTTL,
		Handlers: map[string]windlass.NewHandler{"task": windlass.HandlerFunc(func(ctx context.Context, _ *windlass.Claim) error {
			c.done.Add(1) // as long as it runs
			<-ctx.Done()
			c.done.Add(-1)
			return windlass.ErrRelease
		})},
		Events: events.Node{Joined: func(string, session.Timing) { c.ready() }},
	})
}

// vanished waits until a node is gone from the store, and returns when that was.
func (f *fleet) vanished(name string) time.Time {
	f.b.Helper()
	store, prefix := f.open(), windlass.NamespaceDefault+"/nodes/"+name+"/"
	_, revision, err := broker.Collect(f.b.Context(), store, prefix)
	must(f.b, err)
	for batch, err := range store.Watch(f.b.Context(), prefix, revision+1) {
		must(f.b, err)
		for _, e := range batch.Events {
			if e.Deleted && strings.HasSuffix(e.KV.Key, "/info") {
				return time.Now()
			}
		}
	}
	f.b.Fatal("the watch ended")
	return time.Time{}
}
