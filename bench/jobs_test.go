package bench

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/observe/metrics"
	"github.com/windlass-go/windlass/observe/tracing"
	"github.com/windlass-go/windlass/tree"
)

// jobs is how many BenchmarkJobs runs, and takes how many BenchmarkTake takes.
const (
	jobs  = 20_000
	takes = 300
)

// workers are three nodes that complete every job at once, and count the jobs.
type workers struct {
	stop  context.CancelFunc
	nodes sync.WaitGroup
	done  atomic.Int64
	// all is closed when the awaited number is completed.
	all chan struct{}
}

func startWorkers(b *testing.B, server *embedded.Server, awaited int64, configure ...func(windlass.Config) windlass.Config) *workers {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	w := &workers{stop: stop, all: make(chan struct{})}
	for i := range 3 {
		config := windlass.Config{
			Broker: server.Broker(), Name: fmt.Sprint("n", i), SessionTTL: time.Minute,
			Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(
				func(context.Context, *windlass.Claim) error { return nil })},
			Events: events.Node{Ended: func(e events.End) {
				if e.Outcome == events.Completed && w.done.Add(1) == awaited {
					close(w.all)
				}
			}},
		}
		for _, change := range configure {
			config = change(config)
		}
		startNode(ctx, b, &w.nodes, config)
	}
	client := newClient(b, server.Broker())
	waitForNodes(b, client, 3)
	return w
}

func (w *workers) end() {
	w.stop()
	w.nodes.Wait()
}

func queue(b *testing.B, server *embedded.Server, requests ...tree.Request) {
	b.Helper()
	t := newTree(b, server.Broker())
	for some := range slices.Chunk(requests, tree.ChildrenMax) {
		if _, err := t.Queue(b.Context(), some...); err != nil {
			b.Fatal(err)
		}
	}
}

func requests(n int, jobType string, parent tree.Path) []tree.Request {
	rs := make([]tree.Request, n)
	for i := range rs {
		rs[i] = tree.Request{Name: fmt.Sprintf("%06d", i), Type: jobType, Parent: parent}
	}
	return rs
}

// BenchmarkJobs queues jobs that do nothing while three nodes run them. It reports the
// rate from the first queued job to the last completed one, and its ratio to the same
// number of plain claims in bulk, before and after. A job takes three transactions,
// which write six keys.
func BenchmarkJobs(b *testing.B) {
	for range b.N {
		server := start(b)
		before := rawClaims(b, server.Broker(), "/before", jobs)
		w := startWorkers(b, server, jobs)
		began := time.Now()
		queue(b, server, requests(jobs, "job", "")...)
		<-w.all
		rate := jobs / time.Since(began).Seconds()
		w.end()
		raw := (before + rawClaims(b, server.Broker(), "/after", jobs)) / 2
		b.ReportMetric(rate, "jobs/s")
		b.ReportMetric(raw, "raw-claims/s")
		b.ReportMetric(rate/raw, "of-raw")
	}
}

// observedJobs is the number of jobs of each run of BenchmarkObserved.
const observedJobs = 8000

// discard is an exporter of spans that takes no time.
type discard struct{}

// ExportSpans implements trace.SpanExporter.
func (discard) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }

// Shutdown implements trace.SpanExporter.
func (discard) Shutdown(context.Context) error { return nil }

// BenchmarkObserved runs jobs that do nothing, in turns on nodes without observation,
// with metrics, and with metrics and traces. It reports the ratios of the rates to the
// first. Each traced job makes three spans.
func BenchmarkObserved(b *testing.B) {
	const turns = 4
	for range b.N {
		provider := trace.NewTracerProvider(trace.WithBatcher(discard{}))
		measure := func(c windlass.Config) windlass.Config {
			m, err := metrics.New(metrics.Config{})
			must(b, err)
			return m.Instrument(c)
		}
		follow := func(c windlass.Config) windlass.Config {
			c.Tracer = tracing.New(provider)
			return c
		}
		var plain, measured, traced float64
		for range turns {
			plain += observe(b)
			measured += observe(b, measure)
			traced += observe(b, measure, follow)
		}
		must(b, provider.Shutdown(b.Context()))
		b.ReportMetric(plain/turns, "jobs/s")
		b.ReportMetric(measured/plain, "measured-of-plain")
		b.ReportMetric(traced/plain, "traced-of-plain")
	}
}

// observe returns the rate of jobs on nodes of a configuration.
func observe(b *testing.B, configure ...func(windlass.Config) windlass.Config) float64 {
	b.Helper()
	server := start(b)
	queue(b, server, requests(observedJobs, "job", "")...)
	began := time.Now()
	w := startWorkers(b, server, observedJobs, configure...)
	<-w.all
	rate := observedJobs / time.Since(began).Seconds()
	w.end()
	return rate
}

// BenchmarkFanOut makes ten thousand jobs wait for one, and reports the time from the
// completion of that job until all have run.
func BenchmarkFanOut(b *testing.B) {
	for range b.N {
		server := start(b)
		raw := rawClaims(b, server.Broker(), "/raw", tree.ChildrenMax)
		queue(b, server, tree.Request{Name: "parent", Type: "job"})
		queue(b, server, requests(tree.ChildrenMax, "job", "parent_job")...)
		w := startWorkers(b, server, tree.ChildrenMax+1)
		poll(time.Millisecond, func() bool { return w.done.Load() > 0 })
		began := time.Now()
		<-w.all
		took := time.Since(began)
		w.end()
		b.ReportMetric(took.Seconds(), "s")
		b.ReportMetric(tree.ChildrenMax/took.Seconds()/raw, "of-raw")
	}
}

// BenchmarkFanIn makes one job wait for ten thousand. It reports the time from the
// completion of the last of them until that one has run, and their rate as a part of what
// it is while nothing waits for them.
func BenchmarkFanIn(b *testing.B) {
	many := requests(windlass.NeedsMax, "job", "")
	join := tree.Request{Name: "join", Type: "job"}
	for _, r := range many {
		join.Spec.Needs = append(join.Spec.Needs, tree.Path("").Child(r.Name, r.Type).ID())
	}
	for range b.N {
		plain, _ := fanIn(b, many, windlass.NeedsMax)
		rate, last := fanIn(b, append(slices.Clone(many), join), windlass.NeedsMax+1)
		b.ReportMetric(last.Seconds()*1000, "ms-last")
		b.ReportMetric(rate/plain, "rate-of-plain")
	}
}

// fanIn runs jobs, and returns the rate of the first NeedsMax of them and how much later
// all have run.
func fanIn(b *testing.B, queued []tree.Request, awaited int64) (rate float64, last time.Duration) {
	b.Helper()
	server := start(b)
	queue(b, server, queued...)
	var count atomic.Int64
	first := make(chan struct{})
	began := time.Now()
	w := startWorkers(b, server, awaited, func(c windlass.Config) windlass.Config {
		ended := c.Events.Ended
		c.Events.Ended = func(e events.End) {
			if e.Outcome == events.Completed && count.Add(1) == windlass.NeedsMax {
				close(first)
			}
			ended(e)
		}
		return c
	})
	<-first
	took := time.Since(began)
	<-w.all
	last = time.Since(began) - took
	w.end()
	return windlass.NeedsMax / took.Seconds(), last
}

// BenchmarkTake reports how long a call of Dequeue takes with few and with many pending
// jobs.
func BenchmarkTake(b *testing.B) {
	var first float64
	for _, pending := range []int{100, 5000, 100_000} {
		b.Run(fmt.Sprint(pending), func(b *testing.B) {
			for range b.N {
				median := takesWith(b, pending)
				if pending == 100 {
					first = median
				}
				b.ReportMetric(median, "ms-median")
				if first > 0 {
					b.ReportMetric(median/first, "of-100-pending")
				}
			}
		})
	}
}

// takesWith returns the median time to take a job, in milliseconds. A job that is taken
// is replaced, so that their number stays the same.
func takesWith(b *testing.B, pending int) float64 {
	b.Helper()
	server := start(b)
	queue(b, server, requests(pending, "job", "")...)
	n := joinOne(b, server, nil, func(config *windlass.Config) {
		config.Handlers, config.Pulls = nil, []string{"job"}
	})
	var took []float64
	for i := range takes {
		at := time.Now()
		d, err := n.node.Dequeue(b.Context(), "job")
		must(b, err)
		if i >= takes/10 { // the node may still be reading the tasks before
			took = append(took, milliseconds(time.Since(at)))
		}
		must(b, d.Complete(b.Context()))
		queue(b, server, tree.Request{Name: fmt.Sprint("more", i), Type: "job"})
	}
	n.stop()
	return percentile(took, 50)
}
