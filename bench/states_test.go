package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/statemachine"
)

const (
	// sleepers is how many tasks sleep on one node, and dueTogether how many of
	// them wake up within one second.
	sleepers    = 100_000
	dueTogether = 1000
	// changesPerSecond is the pace of BenchmarkStateChanges, changers the number of its
	// tasks, and changesFor how long it runs.
	changesPerSecond = 1000
	changers         = 100
	changesFor       = 10 * time.Second
)

// BenchmarkSleeping lets one node hold 100,000 sleeping tasks, on an etcd that writes to
// disk. It reports the cost while nothing happens, and how late the tasks wake up that
// are due within the same second.
func BenchmarkSleeping(b *testing.B) {
	for range b.N {
		server := start(b)
		store := server.Broker()
		var mu sync.Mutex
		woke := map[string]time.Time{}
		n := joinOne(b, server, windlass.HandlerFunc(func(ctx context.Context, c *windlass.Claim) error {
			mu.Lock()
			woke[c.ID()] = time.Now()
			mu.Unlock()
			<-ctx.Done()
			return ctx.Err()
		}))
		goroutines := runtime.NumGoroutine()
		wake := time.Now().Add(2 * time.Minute).Truncate(time.Millisecond)
		sleep(b, store, wake)
		n.await(sleepers)
		n.written(sleepers)
		extra := runtime.NumGoroutine() - goroutines
		before, began := processorTime(os.Getpid()), time.Now()
		<-time.After(max(time.Until(wake)-2*time.Second, 10*time.Second))
		idle := 100 * (processorTime(os.Getpid()) - before).Seconds() / time.Since(began).Seconds()
		<-time.After(time.Until(wake) + 5*time.Second)
		n.stop()
		late := make([]float64, 0, dueTogether)
		for i := range dueTogether {
			late = append(late, milliseconds(woke[taskName(i)].Sub(wake.Add(dueAfter(i)))))
		}
		if least := slices.Min(late); least < 0 {
			b.Fatalf("%d of %d woke up, one %v ms early or never", len(woke), dueTogether, -least)
		}
		b.ReportMetric(float64(extra), "goroutines")
		b.ReportMetric(idle, "%-of-a-core-idle")
		b.ReportMetric(percentile(late, 50), "ms-late-median")
		b.ReportMetric(percentile(late, 99), "ms-late-p99")
		b.ReportMetric(percentile(late, 100), "ms-late-max")
	}
}

// dueAfter is how long after the first one a task of those that are due together wakes
// up.
func dueAfter(i int) time.Duration { return time.Duration(i) * time.Second / dueTogether }

// sleep stores sleeping tasks: the first ones sleep until about a time, the others for
// long.
func sleep(b *testing.B, store broker.Broker, wake time.Time) {
	b.Helper()
	txns := make([]broker.Txn, sleepers)
	for i := range txns {
		until := wake.Add(1000 * time.Hour)
		if i < dueTogether {
			until = wake.Add(dueAfter(i))
		}
		state := fmt.Appendf(nil, `{"state":"sleeping","until":%q}`, until.UTC().Format(time.RFC3339Nano))
		id := taskName(i)
		txns[i].Then = []broker.Op{
			broker.Put(windlass.NamespaceDefault+"/state/"+id, state), broker.Put(windlass.NamespaceDefault+"/tasks/"+id, nil),
		}
	}
	commitAll(b, store, txns)
}

// BenchmarkStateChanges lets tasks change their state a thousand times a second, each
// change in a transaction of its own. It reports the time from the return of a handler
// until the node knows that the state is stored, and that of plain conditional writes,
// one after the other, at the same time.
func BenchmarkStateChanges(b *testing.B) {
	for range b.N {
		server := start(b)
		var mu sync.Mutex
		returned := map[string]time.Time{}
		var took []float64
		changes := 0
		// Each round of a task is two changes: it falls asleep, and it wakes up.
		round := 2 * changers * time.Second / changesPerSecond
		begin := make(chan struct{})
		n := joinOne(b, server, windlass.Stateful(func(ctx context.Context, c *windlass.Claim, _ <-chan statemachine.Command) statemachine.Command {
			<-begin
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			until := now.Add(round)
			if returned[c.ID()].IsZero() {
				until = until.Add(time.Duration(len(returned)) * round / changers) // not all at the same time
			}
			returned[c.ID()] = now
			changes++ // it woke up
			return statemachine.SleepUntil(until)
		}), func(cfg *windlass.Config) {
			cfg.Events.Ended = func(e events.End) {
				now := time.Now()
				mu.Lock()
				defer mu.Unlock()
				if e.Outcome == events.Sleeping {
					took = append(took, milliseconds(now.Sub(returned[e.Task])))
					changes++
				}
			}
		})
		store := server.Broker()
		txns := make([]broker.Txn, changers)
		for i := range txns {
			txns[i].Then = []broker.Op{broker.Put(windlass.NamespaceDefault+"/tasks/"+taskName(i), nil)}
		}
		commitAll(b, store, txns)
		n.await(changers)
		close(begin)
		<-time.After(time.Second)
		mu.Lock()
		took, changes = nil, 0
		mu.Unlock()
		began := time.Now()
		raw := conditionalWrites(b, store, changesFor)
		mu.Lock()
		measured, done := slices.Clone(took), changes
		mu.Unlock()
		rate := float64(done) / time.Since(began).Seconds()
		n.stop()
		median, bare := percentile(measured, 50), percentile(raw, 50)
		b.ReportMetric(rate, "changes/s")
		b.ReportMetric(median, "ms-median")
		b.ReportMetric(bare, "ms-raw-median")
		b.ReportMetric(median-bare, "ms-over-raw")
		b.ReportMetric(percentile(measured, 99), "ms-p99")
	}
}

// conditionalWrites writes a key repeatedly on the condition of its revision, and
// returns the milliseconds that each write took.
func conditionalWrites(b *testing.B, store broker.Broker, lasting time.Duration) (took []float64) {
	b.Helper()
	const key = "/raw/state"
	cond := broker.Absent(key)
	for began := time.Now(); time.Since(began) < lasting; {
		<-time.After(10 * time.Millisecond)
		at := time.Now()
		r, err := broker.CommitOne(b.Context(), store, broker.Txn{If: []broker.Cond{cond}, Then: []broker.Op{broker.Put(key, make([]byte, 200))}})
		if err != nil || !r.OK {
			b.Fatal(r, err)
		}
		took = append(took, milliseconds(time.Since(at)))
		cond = broker.Modified(key, r.Revision)
	}
	return took
}

// one is a single node.
type one struct {
	b       *testing.B
	node    *windlass.Node
	store   broker.Broker
	end     context.CancelFunc
	running sync.WaitGroup
}

func joinOne(b *testing.B, server *embedded.Server, handler windlass.NewHandler, configure ...func(*windlass.Config)) *one {
	b.Helper()
	config := windlass.Config{
		Broker: server.Broker(), Name: "n1", Handlers: map[string]windlass.NewHandler{windlass.AnyType: handler},
	}
	for _, f := range configure {
		f(&config)
	}
	ctx, end := context.WithCancel(b.Context())
	n := &one{b: b, store: server.Broker(), end: end}
	n.node = startNode(ctx, b, &n.running, config)
	waitForNodes(b, newClient(b, n.store), 1)
	return n
}

// await waits until the node holds a number of tasks.
func (n *one) await(count int) {
	poll(50*time.Millisecond, func() bool { return len(n.node.Tasks()) >= count })
}

// written waits until the histories of a number of tasks are stored.
func (n *one) written(count int) {
	n.b.Helper()
	poll(500*time.Millisecond, func() bool {
		kvs, _, err := broker.Collect(n.b.Context(), n.store, windlass.NamespaceDefault+"/history/")
		must(n.b, err)
		return len(kvs) >= count
	})
}

func (n *one) stop() {
	n.end()
	n.running.Wait()
}
