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
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/tree"
)

// BenchmarkNodes queues nodesJobs jobs and submits nodesTasks tasks. It waits for them
// at most nodesWithin, because a fleet that is too large for its machine does not finish.
const (
	nodesJobs   = 5000
	nodesTasks  = 5000
	nodesWithin = time.Minute
)

// BenchmarkNodes reports the rates for different numbers of nodes. All nodes are in one
// process, and etcd, which writes to disk, in another. First come jobs that do nothing,
// from the first queued to the last completed one, and then tasks, from the first
// submission until all run. If not all finish within nodesWithin, the rate is that of
// those that did.
func BenchmarkNodes(b *testing.B) {
	for _, n := range []int{3, 10, 30, 60} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				f := startFleet(b, 1, n, windlass.Config{SessionTTL: time.Minute})
				etcd, ours := f.cpu()
				jobs, rate := f.runJobs()
				etcdAfter, oursAfter := f.cpu()
				b.ReportMetric(rate, "jobs/s")
				b.ReportMetric(float64((etcdAfter-etcd).Microseconds())/jobs, "etcd-µs/job")
				b.ReportMetric(float64((oursAfter-ours).Microseconds())/jobs, "nodes-µs/job")
				b.ReportMetric(float64(f.refused.Load())/jobs, "refused-claims/job")
				b.ReportMetric(f.place(nodesTasks), "tasks/s")
				b.ReportMetric(float64(f.drifted.Load()), "moved-for-drift")
				f.end()
			}
		})
	}
}

// BenchmarkOverload runs overloadTasks tasks, and keeps overloadAhead jobs queued ahead
// of the completed ones, for overloadLasts.
const (
	overloadTasks = 3000
	overloadAhead = 4000
	overloadLasts = 10 * time.Minute
)

// BenchmarkOverload makes 60 nodes run jobs as fast as they can, beside tasks that only
// wait, and reports the effect on the nodes and tasks.
func BenchmarkOverload(b *testing.B) {
	for range b.N {
		f := startFleet(b, 1, 60, windlass.Config{Retention: windlass.Retention{Count: 10_000}})
		f.place(overloadTasks)
		<-time.After(20 * time.Second) // until the joins and their moves are over
		moved, interrupted := f.moved.Load(), f.interrupted.Load()
		began := time.Now()
		f.overload(began.Add(overloadLasts))
		b.ReportMetric(float64(f.completed.Load())/time.Since(began).Seconds(), "jobs/s")
		b.ReportMetric(float64(f.refused.Load())/float64(f.completed.Load()), "refused-claims/job")
		b.ReportMetric(float64(f.moved.Load()-moved), "moved")
		b.ReportMetric(float64(f.interrupted.Load()-interrupted), "interrupted")
		b.ReportMetric(float64(f.lost.Load()), "lost-sessions")
		f.end()
	}
}

// overload queues jobs whenever few are ahead, until a time.
func (f *fleet) overload(until time.Time) {
	f.b.Helper()
	t := newTree(f.b, f.open())
	over := time.After(time.Until(until))
	for queued := int64(0); ; {
		if queued-f.completed.Load() < overloadAhead {
			batch := make([]tree.Request, overloadAhead/4)
			for i := range batch {
				queued++
				batch[i] = tree.Request{Name: fmt.Sprintf("%08d", queued), Type: "job"}
			}
			if _, err := t.Queue(f.b.Context(), batch...); err != nil {
				f.b.Fatal(err)
			}
		}
		select {
		case <-f.changed:
		case <-over:
			return
		}
	}
}

// fleet is the nodes of a benchmark, each with a connection of its own.
type fleet struct {
	b       *testing.B
	etcd    *etcdCluster
	clients []*etcd.Broker
	stop    context.CancelFunc
	nodes   sync.WaitGroup

	completed, running, refused, drifted, moved, interrupted, lost atomic.Int64
	// changed has an element when one of the counts has risen.
	changed chan struct{}
}

// startFleet starts n nodes on an etcd with a number of members. The benchmark adds to
// the configuration.
func startFleet(b *testing.B, members, n int, config windlass.Config) *fleet {
	b.Helper()
	server := startEtcd(b, members)
	ctx, stop := context.WithCancel(b.Context())
	f := &fleet{b: b, etcd: server, stop: stop, changed: make(chan struct{}, 1)}
	for i := range n {
		config.Broker, config.Name = f.open(), fmt.Sprint("n", i)
		config.Handlers = map[string]windlass.NewHandler{
			"job":  windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return nil }),
			"task": windlass.HandlerFunc(f.wait),
		}
		config.Events = events.Node{Ended: f.ended, Balanced: f.balanced, Left: f.left}
		config.Coordinator = func(c coordinator.Coordinator) coordinator.Coordinator { return counting{c, &f.refused} }
		startNode(ctx, b, &f.nodes, config)
	}
	client := newClient(f.b, f.open())
	waitForNodes(b, client, n)
	<-time.After(time.Second) // until the joins are over
	return f
}

func (f *fleet) open() broker.Broker {
	f.b.Helper()
	store := openEtcd(f.b, etcd.Config{Endpoints: f.etcd.endpoints})
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

func (f *fleet) ended(e events.End) {
	if e.Outcome != events.Completed {
		f.interrupted.Add(1)
		return
	}
	f.completed.Add(1)
	f.tell()
}

func (f *fleet) left(_ string, cause error, _ []string) {
	if cause != nil {
		f.lost.Add(1)
	}
}

func (f *fleet) balanced(trigger events.Trigger, released int) {
	f.moved.Add(int64(released))
	if trigger == events.TriggerDrift {
		f.drifted.Add(int64(released))
	}
}

func (f *fleet) tell() {
	select {
	case f.changed <- struct{}{}:
	default: // it has one already
	}
}

// until waits for a count, and returns the reached count and the time that it took.
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
	t := newTree(f.b, f.open())
	began := time.Now()
	if _, err := t.Queue(f.b.Context(), requests(nodesJobs, "job", "")...); err != nil {
		f.b.Fatal(err)
	}
	done, took := f.until(&f.completed, nodesJobs, began)
	return float64(max(done, 1)), float64(done) / took.Seconds()
}

func (f *fleet) place(tasks int) (rate float64) {
	f.b.Helper()
	began := time.Now()
	f.submit(tasks)
	placed, took := f.until(&f.running, int64(tasks), began)
	return float64(placed) / took.Seconds()
}

// submit submits tasks that wait for those that they need, if any.
func (f *fleet) submit(tasks int, needs ...string) {
	f.b.Helper()
	client := newClient(f.b, f.open())
	submissions := make([]windlass.Submission, tasks)
	for i := range submissions {
		submissions[i] = windlass.Submission{ID: taskName(i), Spec: windlass.Spec{Type: "task", Needs: needs}}
	}
	must(f.b, errors.Join(client.SubmitAll(f.b.Context(), submissions)...))
}

// cpu returns the processor time so far of the store, and of this process without it.
func (f *fleet) cpu() (store, ours time.Duration) {
	store = processorTime(f.etcd.pids()...)
	return store, processorTime(os.Getpid()) - store
}

func (f *fleet) end() {
	f.b.Helper()
	f.stop()
	f.nodes.Wait()
	var errs []error
	for _, c := range f.clients {
		errs = append(errs, c.Close())
	}
	if err := errors.Join(append(errs, f.etcd.close())...); err != nil {
		f.b.Error(err)
	}
}

// counting counts the claims that were refused because of another node or of a change of
// the task.
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
