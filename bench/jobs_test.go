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
	"github.com/windlass-go/windlass/observe/metrics"
	"github.com/windlass-go/windlass/observe/tracing"
	"github.com/windlass-go/windlass/tree"
)

// jobs is how many BenchmarkJobs runs, and takes how many BenchmarkTake takes.
const (
	jobs  = 20_000
	takes = 300
)

// workers are three nodes that complete every job at once, and count them.
type workers struct {
	b     *testing.B
	stop  context.CancelFunc
	nodes sync.WaitGroup
	done  atomic.Int64
	// all is closed when as many are completed as were awaited.
	awaited int64
	all     chan struct{}
}

func startWorkers(b *testing.B, server *embedded.Server, awaited int, configure ...func(windlass.Config) windlass.Config) *workers {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	w := &workers{b: b, stop: stop, awaited: int64(awaited), all: make(chan struct{})}
	for i := range 3 {
		config := windlass.Config{
			Broker: server.Broker(), Name: fmt.Sprint("n", i), SessionTTL: time.Minute,
			Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(
				func(context.Context, *windlass.Claim) error { return nil })},
			Events: windlass.Events{Ended: func(e windlass.End) {
				if e.Outcome == windlass.OutcomeCompleted && w.done.Add(1) == w.awaited {
					close(w.all)
				}
			}},
		}
		for _, change := range configure {
			config = change(config)
		}
		node, err := windlass.NewNode(config)
		if err != nil {
			b.Fatal(err)
		}
		w.nodes.Go(func() {
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
	return w
}

func (w *workers) end() {
	w.stop()
	w.nodes.Wait()
}

func queue(b *testing.B, server *embedded.Server, requests ...tree.Request) {
	b.Helper()
	t, err := tree.New(server.Broker(), "")
	if err != nil {
		b.Fatal(err)
	}
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

// BenchmarkJobs queues jobs that do nothing while three nodes run them, and reports
// the rate from the first one that is queued until the last one is completed, and
// its ratio to bare claims in bulk, as many of them, before and after: a job takes
// three transactions, which write six keys.
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

// observedJobs is how many each run of BenchmarkObserved has.
const observedJobs = 8000

// discard is an exporter of spans that takes no time.
type discard struct{}

// ExportSpans implements trace.SpanExporter.
func (discard) ExportSpans(context.Context, []trace.ReadOnlySpan) error { return nil }

// Shutdown implements trace.SpanExporter.
func (discard) Shutdown(context.Context) error { return nil }

// BenchmarkObserved runs jobs that do nothing on nodes that are not observed, that
// are measured, and that are traced besides, in turns, and reports the ratios of the
// rates to the first. Each job that is traced makes three spans.
func BenchmarkObserved(b *testing.B) {
	const turns = 4
	for range b.N {
		provider := trace.NewTracerProvider(trace.WithBatcher(discard{}))
		measure := func(c windlass.Config) windlass.Config {
			m, err := metrics.New(metrics.Config{})
			if err != nil {
				b.Fatal(err)
			}
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
		if err := provider.Shutdown(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(plain/turns, "jobs/s")
		b.ReportMetric(measured/plain, "measured-of-plain")
		b.ReportMetric(traced/plain, "traced-of-plain")
	}
}

// observe is the rate of jobs on nodes of a configuration.
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

// BenchmarkFanOut has ten thousand jobs wait for one, and reports how long it takes
// from the completion of that until all have run.
func BenchmarkFanOut(b *testing.B) {
	for range b.N {
		server := start(b)
		raw := rawClaims(b, server.Broker(), "/raw", tree.ChildrenMax)
		queue(b, server, tree.Request{Name: "parent", Type: "job"})
		queue(b, server, requests(tree.ChildrenMax, "job", "parent_job")...)
		w := startWorkers(b, server, tree.ChildrenMax+1)
		for w.done.Load() == 0 {
			<-time.After(time.Millisecond)
		}
		began := time.Now()
		<-w.all
		took := time.Since(began)
		w.end()
		b.ReportMetric(took.Seconds(), "s")
		b.ReportMetric(tree.ChildrenMax/took.Seconds()/raw, "of-raw")
	}
}

// BenchmarkTake reports how long a call of Dequeue takes with few and with many jobs
// pending, and how long the transaction of one claim does by itself.
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

// takesWith returns the median time to take a job, in milliseconds. What is taken is
// replaced, so that there are always as many.
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
		if err != nil {
			b.Fatal(err)
		}
		if i >= takes/10 { // the node may still be reading the tasks before
			took = append(took, time.Since(at).Seconds()*1000)
		}
		if err := d.Complete(b.Context()); err != nil {
			b.Fatal(err)
		}
		queue(b, server, tree.Request{Name: fmt.Sprint("more", i), Type: "job"})
	}
	n.stop()
	slices.Sort(took)
	return took[len(took)/2]
}
