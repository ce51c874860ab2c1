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
	"github.com/windlass-go/windlass/session"
)

const tasks = 10_000

// start runs an etcd that writes to disk, as in production, in this process.
func start(b *testing.B) *embedded.Server {
	b.Helper()
	dir := b.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	server, err := embedded.Start(b.Context(), embedded.Config{Dir: dir})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := server.Close(); err != nil {
			b.Error(err)
		}
	})
	return server
}

// rawClaims claims n tasks in bulk with bare transactions, and returns the rate.
// Every call needs another prefix.
func rawClaims(b *testing.B, store broker.Broker, prefix string, n int) float64 {
	b.Helper()
	session, err := store.Grant(b.Context(), "", time.Minute)
	if err != nil {
		b.Fatal(err)
	}
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
	commit := func(txns []broker.Txn) {
		for _, r := range store.Commit(b.Context(), txns...) {
			if !r.OK {
				b.Fatal(r.Err)
			}
		}
	}
	commit(submit)
	began := time.Now()
	commit(claim)
	return float64(n) / time.Since(began).Seconds()
}

// placeTTL is that of the nodes of BenchmarkPlace, the least, for a killed one is waited for.
const placeTTL = 5 * time.Second

// BenchmarkPlace has long-lived tasks wait for another one, and reports the rate at which three
// nodes come to run them once that one is gone: without the time to submit them, which
// BenchmarkNodes includes. Then it kills one of the nodes with SIGKILL, and reports how long it
// takes from the expiry of its session, as a watch sees it, until all of its tasks run on the
// two others. Beside both are bare claims in bulk on the same etcd. The node that is killed, and
// each member of etcd, is a process of its own.
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
	if err := c.ready(b.Context()); err != nil {
		b.Fatal(err)
	}
	client, err := windlass.NewClient(f.open(), "")
	if err != nil {
		b.Fatal(err)
	}
	const awaited = "awaited" // no node can run it, so it is there until it is deleted
	if err := client.Submit(b.Context(), windlass.Submission{ID: awaited, Spec: windlass.Spec{Type: awaited}}); err != nil {
		b.Fatal(err)
	}
	f.submit(tasks, awaited)
	<-time.After(time.Second) // until the nodes have taken in what was submitted
	began := time.Now()
	if err := client.Delete(b.Context(), awaited); err != nil {
		b.Fatal(err)
	}
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
	<-time.After(3 * time.Second) // until what is written down afterwards is
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

// systemWaiting is that of a worker whose tasks only wait.
const systemWaiting = "waiting"

// victimStore tells such a worker where it is to work.
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
		Events: windlass.Events{Joined: func(string, session.Timing) { c.ready() }},
	})
}

// vanished waits until a node has gone from the store, and returns when that was.
func (f *fleet) vanished(name string) time.Time {
	f.b.Helper()
	store, prefix := f.open(), windlass.NamespaceDefault+"/nodes/"+name+"/"
	_, revision, err := broker.Collect(f.b.Context(), store, prefix)
	if err != nil {
		f.b.Fatal(err)
	}
	for batch, err := range store.Watch(f.b.Context(), prefix, revision+1) {
		if err != nil {
			f.b.Fatal(err)
		}
		for _, e := range batch.Events {
			if e.Deleted && strings.HasSuffix(e.KV.Key, "/info") {
				return time.Now()
			}
		}
	}
	f.b.Fatal("the watch ended")
	return time.Time{}
}

func waitForNodes(b *testing.B, client *windlass.Client, n int) {
	b.Helper()
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for range poll.C {
		nodes, err := client.Nodes(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if len(nodes) == n {
			return
		}
	}
}
