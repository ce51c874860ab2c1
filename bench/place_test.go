package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

const tasks = 10_000

// start runs an etcd that writes to disk, as in production.
func start(b *testing.B) *embedded.Server {
	b.Helper()
	return startWith(b, embedded.Config{})
}

func startWith(b *testing.B, config embedded.Config) *embedded.Server {
	b.Helper()
	dir := b.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	config.Dir = dir
	server, err := embedded.Start(b.Context(), config)
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
func rawClaims(b *testing.B, server *embedded.Server, prefix string, n int) float64 {
	b.Helper()
	store := server.Broker()
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

// BenchmarkPlace submits tasks to three nodes and reports the rate at which
// they come to run, and its ratio to bare claims in bulk.
func BenchmarkPlace(b *testing.B) {
	for range b.N {
		server := start(b)
		raw := rawClaims(b, server, "/raw", tasks)
		var running atomic.Int64
		all := make(chan struct{})
		ctx, stop := context.WithCancel(b.Context())
		var nodes sync.WaitGroup
		for i := range 3 {
			node, err := windlass.NewNode(windlass.Config{
				Broker: server.Broker(), Name: fmt.Sprint("n", i), SessionTTL: time.Minute,
				Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(
					func(ctx context.Context, _ *windlass.Claim) error {
						if running.Add(1) == tasks {
							close(all)
						}
						<-ctx.Done()
						return ctx.Err()
					})},
			})
			if err != nil {
				b.Fatal(err)
			}
			nodes.Go(func() {
				if err := node.Run(ctx); err != nil {
					b.Error(err)
				}
			})
		}
		client, err := windlass.NewClient(server.Broker(), "")
		if err != nil {
			b.Fatal(err)
		}
		waitForNodes(b, client, 3)
		before := resident()
		submissions := make([]windlass.Submission, tasks)
		for i := range submissions {
			submissions[i] = windlass.Submission{ID: fmt.Sprintf("task-%06d", i)}
		}
		began := time.Now()
		for _, err := range client.SubmitAll(b.Context(), submissions) {
			if err != nil {
				b.Fatal(err)
			}
		}
		<-all
		rate := tasks / time.Since(began).Seconds()
		b.ReportMetric(rate, "placed/s")
		b.ReportMetric(raw, "raw-claims/s")
		b.ReportMetric(rate/raw, "of-raw")
		b.ReportMetric(float64(resident()-before)/tasks, "B/task")
		stop()
		nodes.Wait()
	}
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

// resident is the memory that is live after a collection, of broker and nodes
// together.
func resident() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
