package metrics_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/clock"
	"github.com/windlass-go/windlass/observe/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newMetrics(t testing.TB, c metrics.Config) *metrics.Metrics {
	t.Helper()
	m, err := metrics.New(c)
	must(t, err)
	return m
}

// fleet is a store in virtual time with nodes, each with its own metrics as if it were a
// process.
type fleet struct {
	*testing.T
	store   *memory.Store
	client  *windlass.Client
	running sync.WaitGroup
	stops   []context.CancelFunc
}

// inFleet runs a test in a bubble.
func inFleet(t *testing.T, test func(f *fleet)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{T: t, store: memory.New()}
		defer func() {
			for _, stop := range f.stops {
				stop()
			}
			f.running.Wait()
			if err := f.store.Close(); err != nil {
				t.Error(err)
			}
		}()
		var err error
		f.client, err = windlass.NewClient(f.store.Broker(), "/test")
		must(t, err)
		test(f)
	})
}

// member is a node with its metrics.
type member struct {
	*windlass.Node
	metrics *metrics.Metrics
	broker  *faulty.Broker
	stop    context.CancelFunc
}

// leave stops it and waits for it.
func (m *member) leave() {
	m.stop()
	<-m.Done()
}

// untilStopped is a handler that runs until its context ends.
func untilStopped(ctx context.Context, _ *windlass.Claim) error {
	<-ctx.Done()
	return windlass.ErrRelease
}

// join starts a node; configure may change its configuration, before it is measured.
func (f *fleet) join(name string, configure ...func(*windlass.Config)) *member {
	f.Helper()
	m := &member{broker: faulty.Wrap(f.store.Broker(), nil)}
	m.metrics = newMetrics(f, metrics.Config{Namespace: "/test"})
	config := windlass.Config{
		Broker: m.broker, Namespace: "/test", Name: name, Clock: clock.Process,
		Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(untilStopped)},
	}
	for _, change := range configure {
		change(&config)
	}
	node, err := windlass.NewNode(m.metrics.Instrument(config))
	must(f, err)
	m.Node = node
	m.metrics.Watch(m.Node)
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	f.stops = append(f.stops, stop)
	f.running.Go(func() {
		_ = m.Run(ctx) // tests leave handlers behind, which is an error
	})
	f.until("node "+name+" has joined", func() bool { return m.Stats().Joined })
	return m
}

func (f *fleet) submit(taskType string, ids ...string) {
	f.Helper()
	for _, id := range ids {
		must(f, f.client.Submit(f.Context(), windlass.Submission{ID: id, Spec: windlass.Spec{Type: taskType}}))
	}
}

// until waits in virtual time.
func (f *fleet) until(what string, is func() bool) {
	f.Helper()
	for range 6000 {
		if is() {
			return
		}
		pause(50 * time.Millisecond)
	}
	f.Fatalf("it never came that %s", what)
}

// value returns the value of a metric, or its number of observations, and whether there is
// such a series. Labels are name=value.
func value(t testing.TB, m *metrics.Metrics, name string, labels ...string) (float64, bool) {
	t.Helper()
	families, err := m.Gatherer().Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, s := range f.GetMetric() {
			if !has(s, labels) {
				continue
			}
			switch f.GetType() {
			case dto.MetricType_COUNTER:
				return s.GetCounter().GetValue(), true
			case dto.MetricType_HISTOGRAM:
				return float64(s.GetHistogram().GetSampleCount()), true
			default:
				return s.GetGauge().GetValue(), true
			}
		}
	}
	return 0, false
}

func has(s *dto.Metric, labels []string) bool {
	for _, label := range labels {
		name, want, _ := strings.Cut(label, "=")
		if !slices.ContainsFunc(s.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == name && l.GetValue() == want }) {
			return false
		}
	}
	return true
}

// says waits until a metric has at least a value.
func (f *fleet) says(m *member, least float64, name string, labels ...string) {
	f.Helper()
	var last float64
	for range 6000 {
		var ok bool
		if last, ok = value(f, m.metrics, name, labels...); ok && last >= least {
			return
		}
		pause(50 * time.Millisecond)
	}
	f.Errorf("%s%v is %v, want at least %v", name, labels, last, least)
}

// is checks the value of a metric.
func (f *fleet) is(m *member, want float64, name string, labels ...string) {
	f.Helper()
	if got, ok := value(f, m.metrics, name, labels...); !ok || got != want {
		f.Errorf("%s%v is %v (there: %t), want %v", name, labels, got, ok, want)
	}
}

// put writes a key by hand.
func (f *fleet) put(key, value string) {
	f.Helper()
	f.commit(broker.Put(key, []byte(value)))
}

func (f *fleet) commit(op broker.Op) {
	f.Helper()
	_, err := broker.CommitOne(f.Context(), f.store.Broker(), broker.Txn{Then: []broker.Op{op}})
	must(f, err)
}

// pause lets virtual time pass.
func pause(d time.Duration) { time.Sleep(d) }
