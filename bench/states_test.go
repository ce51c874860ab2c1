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
	"github.com/windlass-go/windlass/statemachine"
)

const (
	// sleepers is how many tasks sleep on one node, and dueTogether how many of
	// them wake up within one second.
	sleepers    = 100_000
	dueTogether = 1000
	// changesPerSecond is the pace of BenchmarkStateChanges, by changers tasks, for
	// as long as changesFor.
	changesPerSecond = 1000
	changers         = 100
	changesFor       = 10 * time.Second
)

// BenchmarkSleeping has one node hold 100,000 tasks that sleep, on an etcd that
// writes to disk, and reports what that takes while nothing happens, and how late
// those wake up that are due within the same second.
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
			late = append(late, woke[taskName(i)].Sub(wake.Add(dueAfter(i))).Seconds()*1000)
		}
		slices.Sort(late)
		if late[0] < 0 {
			b.Fatalf("%d of %d woke up, one %v ms early or never", len(woke), dueTogether, -late[0])
		}
		b.ReportMetric(float64(extra), "goroutines")
		b.ReportMetric(idle, "%-of-a-core-idle")
		b.ReportMetric(late[len(late)/2], "ms-late-median")
		b.ReportMetric(late[len(late)*99/100], "ms-late-p99")
		b.ReportMetric(late[len(late)-1], "ms-late-max")
	}
}

// dueAfter is when one of those that wake up together does, after the first.
func dueAfter(i int) time.Duration { return time.Duration(i) * time.Second / dueTogether }

// sleep stores tasks that sleep: the first ones until about a time, the others
// for long.
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

// BenchmarkStateChanges has tasks change their state a thousand times a second,
// each change stored in a transaction of its own, and reports the time from the
// return of a handler until the node knows that the state is stored, beside bare
// conditional writes, one after the other, at the same time.
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
			cfg.Events.Ended = func(e windlass.End) {
				now := time.Now()
				mu.Lock()
				defer mu.Unlock()
				if e.Outcome == windlass.OutcomeSleeping {
					took = append(took, now.Sub(returned[e.Task]).Seconds()*1000)
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
		slices.Sort(measured)
		median, bare := measured[len(measured)/2], raw[len(raw)/2]
		b.ReportMetric(rate, "changes/s")
		b.ReportMetric(median, "ms-median")
		b.ReportMetric(bare, "ms-raw-median")
		b.ReportMetric(median-bare, "ms-over-raw")
		b.ReportMetric(measured[len(measured)*99/100], "ms-p99")
	}
}

// conditionalWrites writes a key on the condition of its revision, again and again,
// and returns how long each took, sorted.
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
		took = append(took, time.Since(at).Seconds()*1000)
		cond = broker.Modified(key, r.Revision)
	}
	slices.Sort(took)
	return took
}

// one is a node by itself.
type one struct {
	b     *testing.B
	node  *windlass.Node
	store broker.Broker
	end   context.CancelFunc
	ended chan error
}

func joinOne(b *testing.B, server *embedded.Server, handler windlass.NewHandler, configure ...func(*windlass.Config)) *one {
	b.Helper()
	config := windlass.Config{
		Broker: server.Broker(), Name: "n1", Handlers: map[string]windlass.NewHandler{windlass.AnyType: handler},
	}
	for _, f := range configure {
		f(&config)
	}
	node, err := windlass.NewNode(config)
	if err != nil {
		b.Fatal(err)
	}
	ctx, end := context.WithCancel(b.Context())
	n := &one{b: b, node: node, store: server.Broker(), end: end, ended: make(chan error, 1)}
	go func() { n.ended <- node.Run(ctx) }()
	client, err := windlass.NewClient(server.Broker(), "")
	if err != nil {
		b.Fatal(err)
	}
	waitForNodes(b, client, 1)
	return n
}

// await waits until the node holds so many tasks.
func (n *one) await(count int) {
	n.b.Helper()
	for len(n.node.Tasks()) < count {
		<-time.After(50 * time.Millisecond)
	}
}

// written waits until the histories of so many tasks are.
func (n *one) written(count int) {
	n.b.Helper()
	for {
		kvs, _, err := broker.Collect(n.b.Context(), n.store, windlass.NamespaceDefault+"/history/")
		if err != nil {
			n.b.Fatal(err)
		}
		if len(kvs) >= count {
			return
		}
		<-time.After(500 * time.Millisecond)
	}
}

func (n *one) stop() {
	n.b.Helper()
	n.end()
	if err := <-n.ended; err != nil {
		n.b.Error(err)
	}
}
