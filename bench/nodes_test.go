package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/bench/internal/proc"
	"github.com/windlass-go/windlass/bench/internal/servers"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/tree"
)

// Of BenchmarkNodes: how many jobs are queued and how many tasks submitted, and how
// long it waits for all of them; a fleet that is too large for its machine does not
// get through.
const (
	nodesJobs   = 5000
	nodesTasks  = 5000
	nodesWithin = time.Minute
)

// BenchmarkNodes reports how the rates fall with the number of nodes, all of them in
// one process beside an etcd in another, which writes to disk: jobs that do nothing
// from the first that is queued to the last that is completed, and then tasks from
// the first that is submitted until all run. What is not reached within nodesWithin is
// a rate of what was.
func BenchmarkNodes(b *testing.B) {
	for _, n := range []int{3, 10, 30, 60} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				f := startFleet(b, n)
				etcd, ours := f.cpu()
				jobs, rate := f.runJobs()
				etcdAfter, oursAfter := f.cpu()
				b.ReportMetric(rate, "jobs/s")
				b.ReportMetric(float64((etcdAfter-etcd).Microseconds())/jobs, "etcd-µs/job")
				b.ReportMetric(float64((oursAfter-ours).Microseconds())/jobs, "nodes-µs/job")
				b.ReportMetric(float64(f.refused.Load())/jobs, "refused-claims/job")
				b.ReportMetric(f.place(), "tasks/s")
				b.ReportMetric(float64(f.drifted.Load()), "moved-for-drift")
				f.end()
			}
		})
	}
}

// fleet is the nodes of a benchmark, each with a connection of its own.
type fleet struct {
	b       *testing.B
	etcd    *servers.Etcd
	clients []*etcd.Broker
	stop    context.CancelFunc
	nodes   sync.WaitGroup

	completed, running, refused, drifted atomic.Int64
	// changed says that one of the counts has gone up.
	changed chan struct{}
}

func startFleet(b *testing.B, n int) *fleet {
	b.Helper()
	dir := b.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	server, err := servers.StartEtcd(b.Context(), dir, 1)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	f := &fleet{b: b, etcd: server, stop: stop, changed: make(chan struct{}, 1)}
	for i := range n {
		node, err := windlass.NewNode(windlass.Config{
			Broker: f.open(), Name: fmt.Sprint("n", i), SessionTTL: time.Minute,
			Handlers: map[string]windlass.NewHandler{
				"job":  windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return nil }),
				"task": windlass.HandlerFunc(f.wait),
			},
			Events:      windlass.Events{Ended: f.ended, Balanced: f.balanced},
			Coordinator: func(c coordinator.Coordinator) coordinator.Coordinator { return counting{c, &f.refused} },
		})
		if err != nil {
			b.Fatal(err)
		}
		f.nodes.Go(func() {
			if err := node.Run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	client, err := windlass.NewClient(f.open(), "")
	if err != nil {
		b.Fatal(err)
	}
	waitForNodes(b, client, n)
	<-time.After(time.Second) // until the joins are over
	return f
}

func (f *fleet) open() broker.Broker {
	f.b.Helper()
	store, err := etcd.Open(f.b.Context(), etcd.Config{Endpoints: f.etcd.Endpoints})
	if err != nil {
		f.b.Fatal(err)
	}
	f.clients = append(f.clients, store)
	return store
}

func (f *fleet) wait(ctx context.Context, _ *windlass.Claim) error {
	f.running.Add(1)
	f.tell()
	<-ctx.Done()
	f.running.Add(-1)
	return windlass.ErrRelease
}

func (f *fleet) ended(e windlass.End) {
	if e.Outcome == windlass.OutcomeCompleted {
		f.completed.Add(1)
		f.tell()
	}
}

func (f *fleet) balanced(trigger windlass.Trigger, released int) {
	if trigger == windlass.TriggerDrift {
		f.drifted.Add(int64(released))
	}
}

func (f *fleet) tell() {
	select {
	case f.changed <- struct{}{}:
	default: // it is said already
	}
}

// until waits for a count, and returns what it has come to, and the time it took.
func (f *fleet) until(count *atomic.Int64, want int64, began time.Time) (reached int64, took time.Duration) {
	enough := time.After(nodesWithin)
	for {
		if reached = count.Load(); reached >= want {
			return reached, time.Since(began)
		}
		select {
		case <-f.changed:
		case <-enough:
			return count.Load(), time.Since(began)
		}
	}
}

func (f *fleet) runJobs() (jobs, rate float64) {
	f.b.Helper()
	t, err := tree.New(f.open(), "")
	if err != nil {
		f.b.Fatal(err)
	}
	began := time.Now()
	if _, err := t.Queue(f.b.Context(), requests(nodesJobs, "job", "")...); err != nil {
		f.b.Fatal(err)
	}
	done, took := f.until(&f.completed, nodesJobs, began)
	return float64(max(done, 1)), float64(done) / took.Seconds()
}

func (f *fleet) place() (rate float64) {
	f.b.Helper()
	client, err := windlass.NewClient(f.open(), "")
	if err != nil {
		f.b.Fatal(err)
	}
	submissions := make([]windlass.Submission, nodesTasks)
	for i := range submissions {
		submissions[i] = windlass.Submission{ID: taskName(i), Spec: windlass.Spec{Type: "task"}}
	}
	began := time.Now()
	if err := errors.Join(client.SubmitAll(f.b.Context(), submissions)...); err != nil {
		f.b.Fatal(err)
	}
	placed, took := f.until(&f.running, nodesTasks, began)
	return float64(placed) / took.Seconds()
}

// cpu is the processor time so far of the store, and of this process without it.
func (f *fleet) cpu() (store, ours time.Duration) {
	store, _ = proc.CPU(f.etcd.Pids()...) // zero where the system does not tell
	all, _ := proc.CPU(os.Getpid())
	return store, all - store
}

func (f *fleet) end() {
	f.b.Helper()
	f.stop()
	f.nodes.Wait()
	var errs []error
	for _, c := range f.clients {
		errs = append(errs, c.Close())
	}
	if err := errors.Join(append(errs, f.etcd.Close())...); err != nil {
		f.b.Error(err)
	}
}

// counting counts the claims that another node, or a change of the task, got in the way of.
type counting struct {
	coordinator.Coordinator
	refused *atomic.Int64
}

// Claim implements coordinator.Coordinator.
func (c counting) Claim(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
	results := c.Coordinator.Claim(ctx, wanted)
	for _, r := range results {
		for _, refusal := range []error{coordinator.ErrOwned, coordinator.ErrGone, coordinator.ErrBlocked, coordinator.ErrChanged} {
			if errors.Is(r.Err, refusal) {
				c.refused.Add(1)
			}
		}
	}
	return results
}
