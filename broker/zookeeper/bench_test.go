//go:build e2e

package zookeeper_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
	"github.com/windlass-go/windlass/tree"
)

const (
	benchClaims = 20_000
	benchJobs   = 10_000
	// inFlight is how many bare creations are under way at once, and how many claims
	// a call commits.
	inFlight = 256
)

func benchOpen(b *testing.B, server *zktest.Server) *zookeeper.Broker {
	b.Helper()
	store, err := zookeeper.Open(b.Context(), zookeeper.Config{Servers: []string{server.Address()}, Chroot: "/bench",
		TickTime: time.Second, RequestTimeout: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	return store
}

func benchDial(b *testing.B, server *zktest.Server) *wire.Conn {
	b.Helper()
	start := time.Now()
	c, err := wire.Dial(b.Context(), wire.Config{Address: server.Address(), Timeout: 20 * time.Second, Now: func() time.Duration { return time.Since(start) }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	return c
}

var openACL = []wire.ACL{{Perms: wire.PermAll, Scheme: "world", ID: "anyone"}}

func benchDo(b *testing.B, c *wire.Conn, requests ...wire.Request) []wire.Reply {
	b.Helper()
	var replies []wire.Reply
	for _, a := range c.DoAll(b.Context(), requests...) {
		if a.Err != nil {
			b.Fatal(a.Err)
		}
		replies = append(replies, a.Reply)
	}
	return replies
}

// rawCreates returns how many bare creations the server does in a second.
func rawCreates(b *testing.B, server *zktest.Server, prefix string) float64 {
	b.Helper()
	c := benchDial(b, server)
	benchDo(b, c, wire.Single(wire.Create(prefix, nil, wire.Persistent, openACL)))
	began := time.Now()
	for i := 0; i < benchClaims; i += inFlight {
		var requests []wire.Request
		for k := range inFlight {
			requests = append(requests, wire.Single(wire.Create(fmt.Sprintf("%s/%06d", prefix, i+k), []byte(`{"node":"n1"}`), wire.Ephemeral, openACL)))
		}
		benchDo(b, c, requests...)
	}
	return benchClaims / time.Since(began).Seconds()
}

// BenchmarkClaims commits claims, each on condition that the task is there and nobody
// holds it, and reports their rate beside that of bare creations of ephemeral znodes, as
// many in flight, before and after.
func BenchmarkClaims(b *testing.B) {
	for range b.N {
		server := zktest.Start(b, zktest.Options{Tick: time.Second})
		before := rawCreates(b, server, "/before")
		store := benchOpen(b, server)
		session, err := store.Grant(b.Context(), "", 15*time.Second)
		if err != nil {
			b.Fatal(err)
		}
		commit := func(make func(i int) broker.Txn) float64 {
			began := time.Now()
			for i := 0; i < benchClaims; i += inFlight {
				var txns []broker.Txn
				for k := range inFlight {
					txns = append(txns, make(i+k))
				}
				for _, r := range store.Commit(b.Context(), txns...) {
					if r.Err != nil || !r.OK {
						b.Fatalf("%+v", r)
					}
				}
				if _, err := store.KeepAlive(b.Context(), session.ID); err != nil {
					b.Fatal(err)
				}
			}
			return benchClaims / time.Since(began).Seconds()
		}
		task := func(i int) string { return fmt.Sprintf("/ns/tasks/%06d", i) }
		claim := func(i int) string { return fmt.Sprintf("/ns/claims/%06d", i) }
		submits := commit(func(i int) broker.Txn {
			return broker.Txn{If: []broker.Cond{broker.Absent(task(i))}, Then: []broker.Op{broker.Put(task(i), []byte("{}"))}}
		})
		claims := commit(func(i int) broker.Txn {
			return broker.Txn{If: []broker.Cond{broker.Exists(task(i)), broker.Absent(claim(i))},
				Then: []broker.Op{broker.PutSession(claim(i), []byte(`{"node":"n1"}`), session.ID), broker.Read(task(i))}}
		})
		raw := (before + rawCreates(b, server, "/after")) / 2
		b.ReportMetric(submits, "submits/s")
		b.ReportMetric(claims, "claims/s")
		b.ReportMetric(raw, "raw-creates/s")
		b.ReportMetric(claims/raw, "of-raw")
	}
}

// BenchmarkReads reads keys, each behind a barrier, by one caller and by many, beside bare
// creations of ephemeral znodes.
func BenchmarkReads(b *testing.B) {
	const callers, each = 64, 100
	for range b.N {
		server := zktest.Start(b, zktest.Options{Tick: time.Second})
		before := rawCreates(b, server, "/before")
		store := benchOpen(b, server)
		if r := store.Commit(b.Context(), broker.Txn{Then: []broker.Op{broker.Put("/ns/key", []byte("{}"))}})[0]; r.Err != nil {
			b.Fatal(r.Err)
		}
		read := func(callers int) float64 {
			began := time.Now()
			var reading sync.WaitGroup
			for range callers {
				reading.Go(func() {
					for range each {
						if _, err := store.Get(b.Context(), "/ns/key"); err != nil {
							b.Error(err)
						}
					}
				})
			}
			reading.Wait()
			return float64(callers*each) / time.Since(began).Seconds()
		}
		one, many := read(1), read(callers)
		raw := (before + rawCreates(b, server, "/after")) / 2
		b.ReportMetric(one, "reads-by-one/s")
		b.ReportMetric(many, "reads-by-64/s")
		b.ReportMetric(raw, "raw-creates/s")
		b.ReportMetric(many/raw, "of-raw")
	}
}

// BenchmarkJobs is that of package bench, on ZooKeeper.
func BenchmarkJobs(b *testing.B) {
	for range b.N {
		server := zktest.Start(b, zktest.Options{Tick: time.Second})
		before := rawCreates(b, server, "/before")
		ctx, stop := context.WithCancel(b.Context())
		var nodes sync.WaitGroup
		var done atomic.Int64
		all := make(chan struct{})
		for i := range 3 {
			node, err := windlass.NewNode(windlass.Config{
				Broker: benchOpen(b, server), Name: fmt.Sprint("n", i),
				Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return nil })},
				Events: windlass.Events{Ended: func(e windlass.End) {
					if e.Outcome == windlass.OutcomeCompleted && done.Add(1) == benchJobs {
						close(all)
					}
				}},
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
		jobs, err := tree.New(benchOpen(b, server), "")
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		benchQueue(b, jobs, 0, benchJobs)
		<-all
		rate := benchJobs / time.Since(began).Seconds()
		stop()
		nodes.Wait()
		raw := (before + rawCreates(b, server, "/after")) / 2
		b.ReportMetric(rate, "jobs/s")
		b.ReportMetric(raw, "raw-creates/s")
		b.ReportMetric(rate/raw, "of-raw")
	}
}

// BenchmarkHandOver stops one of three nodes in good order, and reports how many of its
// tasks others take up in a second, beside bare creations of ephemeral znodes.
func BenchmarkHandOver(b *testing.B) {
	const tasks = 6_000
	for range b.N {
		server := zktest.Start(b, zktest.Options{Tick: time.Second})
		before := rawCreates(b, server, "/before")
		var starts, awaited atomic.Int64
		awaited.Store(tasks)
		reached := make(chan struct{}, 1)
		handler := windlass.HandlerFunc(func(ctx context.Context, _ *windlass.Claim) error {
			if starts.Add(1) == awaited.Load() {
				reached <- struct{}{}
			}
			<-ctx.Done()
			return ctx.Err()
		})
		var running sync.WaitGroup
		var nodes []*windlass.Node
		var stops []context.CancelFunc
		for i := range 3 {
			node, err := windlass.NewNode(windlass.Config{Broker: benchOpen(b, server), Name: fmt.Sprint("n", i),
				Handlers: map[string]windlass.NewHandler{windlass.AnyType: handler}})
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			nodes, stops = append(nodes, node), append(stops, stop)
			running.Go(func() {
				if err := node.Run(ctx); err != nil {
					b.Error(err)
				}
			})
		}
		client, err := windlass.NewClient(benchOpen(b, server), "")
		if err != nil {
			b.Fatal(err)
		}
		var submissions []windlass.Submission
		for i := range tasks {
			submissions = append(submissions, windlass.Submission{ID: fmt.Sprintf("t%05d", i)})
		}
		for _, err := range client.SubmitAll(b.Context(), submissions) {
			if err != nil {
				b.Fatal(err)
			}
		}
		<-reached
		held := len(nodes[0].Tasks())
		awaited.Store(starts.Load() + int64(held))
		began := time.Now()
		stops[0]()
		<-reached
		rate := float64(held) / time.Since(began).Seconds()
		for _, stop := range stops {
			stop()
		}
		running.Wait()
		raw := (before + rawCreates(b, server, "/after")) / 2
		b.ReportMetric(float64(held), "tasks")
		b.ReportMetric(rate, "handed-over/s")
		b.ReportMetric(raw, "raw-creates/s")
		b.ReportMetric(rate/raw, "of-raw")
	}
}

func benchQueue(b *testing.B, jobs *tree.Tree, from, n int) {
	b.Helper()
	requests := make([]tree.Request, n)
	for i := range requests {
		requests[i] = tree.Request{Name: fmt.Sprintf("%06d", from+i), Type: "job"}
	}
	for some := range slices.Chunk(requests, tree.ChildrenMax) {
		if _, err := jobs.Queue(b.Context(), some...); err != nil {
			b.Fatal(err)
		}
	}
}
