package metrics

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/windlass-go/windlass"
)

// Config says what is measured. The zero value works.
type Config struct {
	// Namespace of the tasks, for the label ns. Empty is
	// windlass.NamespaceDefault.
	Namespace string
	// Registry that the metrics are added to. Nil is one of their own, with those
	// of the Go runtime and of the process.
	Registry *prometheus.Registry
	// Also are served along with it: an embedded etcd's, say.
	Also []prometheus.Gatherer
	// TypesMax bounds the types of tasks that have series of their own; those that
	// come later are counted as "other". Zero means TypesMaxDefault.
	TypesMax int
	// Space, if set, tells how many bytes of how many the broker uses; a quota of
	// zero is none. It is asked when somebody scrapes, once in SpaceEvery at most,
	// and has SpaceTimeout to answer.
	Space func(ctx context.Context) (used, quota int64, err error)
}

// Defaults and times.
const (
	// TypesMaxDefault is how many types have series of their own.
	TypesMaxDefault = 50
	// SpaceEvery is how long an answer of Config.Space is good for.
	SpaceEvery = 30 * time.Second
	// SpaceTimeout is how long it may take.
	SpaceTimeout = 2 * time.Second
)

// TypeOther stands for all types above Config.TypesMax, TypeNone for an empty one.
const (
	TypeOther = "other"
	TypeNone  = "none"
)

// Metrics are those of one process and one namespace, for any number of nodes in
// it. Its methods are safe for concurrent use.
type Metrics struct {
	config   Config
	registry *prometheus.Registry
	series   *series
	types    *types
	flow     *flow
	space    space

	mu     sync.Mutex
	nodes  []*windlass.Node
	counts func() map[windlass.Status]int
}

// New makes the metrics. It fails where the registry has some of them already, and
// on a TypesMax that is negative.
func New(c Config) (*Metrics, error) {
	if c.TypesMax < 0 {
		return nil, &windlass.BadInputError{Field: "TypesMax", Value: fmt.Sprint(c.TypesMax), Limit: "must be at least 1, or 0 for the default"}
	}
	if c.TypesMax == 0 {
		c.TypesMax = TypesMaxDefault
	}
	if c.Namespace == "" {
		c.Namespace = windlass.NamespaceDefault
	}
	c.Namespace = "/" + strings.Trim(c.Namespace, "/ ")
	m := &Metrics{config: c, registry: c.Registry, series: newSeries(), flow: &flow{}, space: space{ask: c.Space}}
	m.types = &types{max: c.TypesMax, runs: m.series.runs}
	all := append(m.series.all(), &scrape{m}, buildInfo())
	if m.registry == nil {
		m.registry = prometheus.NewRegistry()
		all = append(all, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	for i, collector := range all {
		if err := m.registry.Register(collector); err != nil {
			for _, registered := range all[:i] {
				m.registry.Unregister(registered)
			}
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// Gatherer has all that is served.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return append(prometheus.Gatherers{m.registry}, m.config.Also...)
}

// Handler serves them, for any path. A collector that fails leaves out its own.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Gatherer(), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// Instrument returns a node's configuration that is measured: its broker, its
// events, its coordinator and its fence. What was set stays in effect. Call it
// last, and Watch with the node that is made of it.
func (m *Metrics) Instrument(c windlass.Config) windlass.Config {
	if c.Broker != nil {
		c.Broker = m.Broker(c.Broker)
	}
	c.Events = m.Events(c.Events)
	c.Coordinator = m.coordinator(c.Coordinator)
	next := c.Fence
	c.Fence = func(overdue func() []string) {
		m.series.guardKills.Inc()
		if next != nil {
			next(overdue)
		}
	}
	return c
}

// Watch has the Stats of a node read at each scrape, until its Run has returned.
func (m *Metrics) Watch(n *windlass.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = append(m.nodes, n)
}

// Count has the tasks counted by status at each scrape; nil where they are not
// known. A server of the HTTP API knows them.
func (m *Metrics) Count(counts func() map[windlass.Status]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts = counts
}
