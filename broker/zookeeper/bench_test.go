//go:build e2e

package zookeeper

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
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
	"github.com/windlass-go/windlass/broker/zookeeper/zktest"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/tree"
)

const (
	benchClaims = 20_000
	benchJobs   = 10_000
	// inFlight is the number of concurrent bare creations, and of claims per call.
	inFlight = 256
)

// besideRaw calls run with a function that opens brokers on a new server, and reports the
// rate that it returns, and its ratio to the rate of bare creations of ephemeral znodes
// before and after.
func besideRaw(b *testing.B, unit string, run func(open func() *Broker) float64) {
	for range b.N {
		server := zktest.Start(b, zktest.Options{Tick: time.Second})
		open := func() *Broker {
			return openTest(b, Config{Servers: []string{server.Address()}, Chroot: "/bench", TickTime: time.Second, RequestTimeout: time.Minute})
		}
		before := rawCreates(b, server, "/before")
		rate := run(open)
		raw := (before + rawCreates(b, server, "/after")) / 2
		b.ReportMetric(rate, unit)
		b.ReportMetric(raw, "raw-creates/s")
		b.ReportMetric(rate/raw, "of-raw")
	}
}

// rawCreates returns how many bare creations the server does per second.
func rawCreates(b *testing.B, server *zktest.Server, prefix string) float64 {
	b.Helper()
	c := plain(b, server.Address(), func(c *wire.Config) { c.Timeout = 20 * time.Second })
	ask(b, c, wire.Single(wire.Create(prefix, nil, wire.Persistent, everyone)))
	began := time.Now()
	for i := 0; i < benchClaims; i += inFlight {
		var requests []wire.Request
		for k := range inFlight {
			requests = append(requests, wire.Single(wire.Create(fmt.Sprintf("%s/%06d", prefix, i+k), []byte(`{"node":"n1"}`), wire.Ephemeral, everyone)))
		}
		for _, a := range c.DoAll(b.Context(), requests...) {
			if a.Err != nil {
				b.Fatal(a.Err)
			}
		}
	}
	return benchClaims / time.Since(began).Seconds()
}

// BenchmarkClaims commits claims, each on condition that the task exists and nobody holds
// it.
func BenchmarkClaims(b *testing.B) {
	besideRaw(b, "claims/s", func(open func() *Broker) float64 {
		store := open()
		session := mustGrant(b, store, 15*time.Second)
		commit := func(make func(i int) broker.Txn) float64 {
			began := time.Now()
			for i := 0; i < benchClaims; i += inFlight {
				var txns []broker.Txn
				for k := range inFlight {
					txns = append(txns, make(i+k))
				}
				mustCommit(b, store, txns...)
				if _, err := store.KeepAlive(b.Context(), session.ID); err != nil {
					b.Fatal(err)
				}
			}
			return benchClaims / time.Since(began).Seconds()
		}
		task := func(i int) string { return fmt.Sprintf("/ns/tasks/%06d", i) }
		claim := func(i int) string { return fmt.Sprintf("/ns/claims/%06d", i) }
		b.ReportMetric(commit(func(i int) broker.Txn {
			return broker.Txn{If: []broker.Cond{broker.Absent(task(i))}, Then: []broker.Op{broker.Put(task(i), []byte("{}"))}}
		}), "submits/s")
		return commit(func(i int) broker.Txn {
			return broker.Txn{If: []broker.Cond{broker.Exists(task(i)), broker.Absent(claim(i))},
				Then: []broker.Op{broker.PutSession(claim(i), []byte(`{"node":"n1"}`), session.ID), broker.Read(task(i))}}
		})
	})
}

// BenchmarkReads reads keys, each behind a barrier, by one caller and by many.
func BenchmarkReads(b *testing.B) {
	const callers, each = 64, 100
	besideRaw(b, "reads-by-64/s", func(open func() *Broker) float64 {
		store := open()
		mustCommit(b, store, put("/ns/key", []byte("{}")))
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
		b.ReportMetric(read(1), "reads-by-one/s")
		return read(callers)
	})
}

// benchNodes runs three nodes, and returns them, a function that stops one, and one that
// waits for all to stop.
func benchNodes(b *testing.B, open func() *Broker, handler func(context.Context, *windlass.Claim) error, events events.Node) ([]*windlass.Node, []context.CancelFunc, *sync.WaitGroup) {
	b.Helper()
	var nodes []*windlass.Node
	var stops []context.CancelFunc
	var running sync.WaitGroup
	for i := range 3 {
		node, err := windlass.NewNode(windlass.Config{Broker: open(), Name: fmt.Sprint("n", i), Events: events,
			Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(handler)}})
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
	return nodes, stops, &running
}

// BenchmarkJobs is that of package bench, on ZooKeeper.
func BenchmarkJobs(b *testing.B) {
	besideRaw(b, "jobs/s", func(open func() *Broker) float64 {
		var done atomic.Int64
		all := make(chan struct{})
		_, stops, running := benchNodes(b, open, func(context.Context, *windlass.Claim) error { return nil },
			events.Node{Ended: func(e events.End) {
				if e.Outcome == events.Completed && done.Add(1) == benchJobs {
					close(all)
				}
			}})
		jobs, err := tree.New(open(), "")
		if err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		requests := make([]tree.Request, benchJobs)
		for i := range requests {
			requests[i] = tree.Request{Name: fmt.Sprintf("%06d", i), Type: "job"}
		}
		for some := range slices.Chunk(requests, tree.ChildrenMax) {
			if _, err := jobs.Queue(b.Context(), some...); err != nil {
				b.Fatal(err)
			}
		}
		<-all
		rate := benchJobs / time.Since(began).Seconds()
		for _, stop := range stops {
			stop()
		}
		running.Wait()
		return rate
	})
}

// BenchmarkHandOver stops one of three nodes in good order, and reports how many of its
// tasks the others take over per second.
func BenchmarkHandOver(b *testing.B) {
	const tasks = 6_000
	besideRaw(b, "handed-over/s", func(open func() *Broker) float64 {
		var starts, awaited atomic.Int64
		awaited.Store(tasks)
		reached := make(chan struct{}, 1)
		nodes, stops, running := benchNodes(b, open, func(ctx context.Context, _ *windlass.Claim) error {
			if starts.Add(1) == awaited.Load() {
				reached <- struct{}{}
			}
			<-ctx.Done()
			return ctx.Err()
		}, events.Node{})
		client, err := windlass.NewClient(open(), "")
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
		b.ReportMetric(float64(held), "tasks")
		return rate
	})
}
