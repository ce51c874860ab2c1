package metrics

import (
	"cmp"
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

// Config configures what is measured. The zero value works.
type Config struct {
	// Namespace is the namespace of the tasks, for the label ns that every metric has. Empty
	// means windlass.NamespaceDefault. The metrics of several namespaces can be in one Registry.
	Namespace string
	// Registry is the registry that the metrics are added to. Nil means a new one, with
	// the metrics of the Go runtime and of the process.
	Registry *prometheus.Registry
	// Also are further gatherers to serve, such as that of an embedded etcd.
	Also []prometheus.Gatherer
	// TypesMax limits the types of tasks that have series of their own; later types are
	// counted as "other". Zero means TypesMaxDefault.
	TypesMax int
	// Space, if set, returns how many bytes the broker uses, and its quota; a quota of
	// zero means none. It is called at a scrape, at most once in SpaceEvery, and has
	// SpaceTimeout to answer.
	Space func(ctx context.Context) (used, quota int64, err error)
}

// Defaults and times.
const (
	// TypesMaxDefault is how many types have series of their own.
	TypesMaxDefault = 50
	// SpaceEvery is how long a result of Config.Space is used.
	SpaceEvery = 30 * time.Second
	// SpaceTimeout is how long Config.Space may take.
	SpaceTimeout = 2 * time.Second
)

// TypeOther stands for all types above Config.TypesMax, TypeNone for an empty one.
const (
	TypeOther = "other"
	TypeNone  = "none"
)

// Metrics are the metrics of one process and one namespace, for any number of nodes in
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

// New returns the metrics. It fails if the registry has some of them already, and on a
// negative TypesMax.
func New(c Config) (*Metrics, error) {
	if c.TypesMax < 0 {
		return nil, &windlass.BadInputError{Field: "TypesMax", Value: fmt.Sprint(c.TypesMax), Limit: "must be at least 1, or 0 for the default"}
	}
	c.Namespace = "/" + strings.Trim(cmp.Or(c.Namespace, windlass.NamespaceDefault), "/ ")
	m := &Metrics{config: c, registry: c.Registry, flow: &flow{watches: map[*position]struct{}{}}, space: space{ask: c.Space}}
	var all []prometheus.Collector
	m.series, all = newSeries()
	m.types = newTypes(cmp.Or(c.TypesMax, TypesMaxDefault), m.series.runs)
	all = append(all, &scrape{m}, buildInfo())
	if m.registry == nil {
		m.registry = prometheus.NewRegistry()
		m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	}
	ours := prometheus.WrapRegistererWith(prometheus.Labels{"ns": c.Namespace}, m.registry)
	for i, collector := range all {
		if err := ours.Register(collector); err != nil {
			for _, registered := range all[:i] {
				ours.Unregister(registered)
			}
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// Gatherer returns a gatherer of everything that is served.
func (m *Metrics) Gatherer() prometheus.Gatherer {
	return append(prometheus.Gatherers{m.registry}, m.config.Also...)
}

// Handler serves the metrics, for any path. If a collector fails, only its own metrics
// are missing.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.Gatherer(), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
}

// Instrument returns a node's configuration with its broker, its events, its
// coordinator and its fence measured. Existing settings stay in effect. Call it last,
// and then Watch with the node.
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

// Watch reads the Stats of a node at each scrape, until its Run has returned.
func (m *Metrics) Watch(n *windlass.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = append(m.nodes, n)
}

// LogFailed counts a run of an OS command whose output could not be written to its log.
func (m *Metrics) LogFailed() { m.series.logErrors.Inc() }

// Count sets a function that counts the tasks by status at each scrape; it returns nil
// if the counts are not known. A server of the HTTP API knows them.
func (m *Metrics) Count(counts func() map[windlass.Status]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts = counts
}
