package metrics

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/windlass-go/windlass"
)

// The metrics that are read at a scrape.
var (
	tasksDesc = prometheus.NewDesc("windlass_tasks",
		"Tasks of the namespace: held and unheld as a node knows them, or by status as a server of the HTTP API does.", []string{"state"}, nil)
	nodeTasksDesc = prometheus.NewDesc("windlass_node_tasks", "Tasks that the nodes of this process hold.", []string{"state"}, nil)
	joinedDesc    = prometheus.NewDesc("windlass_nodes_joined", "Nodes of this process that are registered.", nil, nil)
	configured    = prometheus.NewDesc("windlass_nodes", "Nodes of this process.", nil, nil)
	marginDesc    = prometheus.NewDesc("windlass_lease_margin_seconds",
		"Time left until handlers are told to stop unless the session is renewed, of the node with the least.", nil, nil)
	lagDesc = prometheus.NewDesc("windlass_watch_lag_revisions",
		"By how many revisions a watch is behind the newest that this process has heard of.", []string{"watch"}, nil)
	quotaDesc = prometheus.NewDesc("windlass_store_quota_ratio", "Part of the store's quota that is used, from 0 to 1.", nil, nil)
)

// scrape collects them.
type scrape struct{ metrics *Metrics }

// Describe implements prometheus.Collector.
func (s *scrape) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{tasksDesc, nodeTasksDesc, joinedDesc, configured, marginDesc, lagDesc, quotaDesc} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (s *scrape) Collect(out chan<- prometheus.Metric) {
	m := s.metrics
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	nodes, counts := m.watched()
	if counts != nil {
		for status, n := range counts() {
			gauge(tasksDesc, float64(n), string(status))
		}
	}
	if len(nodes) > 0 {
		m.collectNodes(nodes, gauge)
	}
	for subject, lag := range m.flow.lag() {
		gauge(lagDesc, float64(lag), subject)
	}
	if ratio, ok := m.space.ratio(); ok {
		gauge(quotaDesc, ratio)
	}
}

// collectNodes adds up the Stats of the nodes.
func (m *Metrics) collectNodes(nodes []*windlass.Node, gauge func(*prometheus.Desc, float64, ...string)) {
	held := map[windlass.Status]int{}
	joined, counted := 0, false
	var margin time.Duration
	for _, n := range nodes {
		s := n.Stats()
		for status, n := range s.Held {
			held[status] += n
		}
		if s.Joined {
			if joined++; joined == 1 || s.Margin < margin {
				margin = s.Margin
			}
		}
		if s.Known && !counted { // all nodes know the same tasks
			counted = true
			gauge(tasksDesc, float64(s.TasksHeld), "held")
			gauge(tasksDesc, float64(s.TasksUnheld), "unheld")
		}
	}
	for status, n := range held {
		gauge(nodeTasksDesc, float64(n), string(status))
	}
	gauge(configured, float64(len(nodes)))
	gauge(joinedDesc, float64(joined))
	if joined > 0 {
		gauge(marginDesc, margin.Seconds())
	}
}

// watched returns the nodes whose Run has not returned, and the function that counts tasks.
func (m *Metrics) watched() ([]*windlass.Node, func() map[windlass.Status]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.nodes = slices.DeleteFunc(m.nodes, func(n *windlass.Node) bool {
		select {
		case <-n.Done():
			return true
		default:
			return false
		}
	})
	return slices.Clone(m.nodes), m.counts
}

// space caches the result of Config.Space.
type space struct {
	ask func(context.Context) (used, quota int64, err error)

	mu    sync.Mutex // held during the call, whose result all scrapes use
	at    time.Time
	value float64
	known bool
}

// ratio returns the used part of the quota; false if it is not known.
func (s *space) ratio() (float64, bool) {
	if s.ask == nil {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.at.IsZero() && time.Since(s.at) < SpaceEvery {
		return s.value, s.known
	}
	ctx, cancel := context.WithTimeout(context.Background(), SpaceTimeout)
	defer cancel()
	used, quota, err := s.ask(ctx)
	s.at, s.known = time.Now(), err == nil && quota > 0
	if s.known {
		s.value = float64(used) / float64(quota)
	}
	return s.value, s.known
}

// Only returns a gatherer of the metrics of g whose names begin with one of some
// prefixes, for example those of an embedded etcd in the default registry.
func Only(g prometheus.Gatherer, prefixes ...string) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := g.Gather()
		return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool {
			return !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(f.GetName(), p) })
		}), err
	})
}
