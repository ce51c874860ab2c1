package metrics

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windlass-go/windlass/internal/stamp"
)

// The buckets for the times of calls to the broker, of waiting tasks and of runs: to 16 s,
// 9 minutes and 2 days.
var (
	callBuckets = prometheus.ExponentialBuckets(0.0005, 2, 16)
	waitBuckets = prometheus.ExponentialBuckets(0.001, 3, 13)
	runBuckets  = prometheus.ExponentialBuckets(0.01, 4, 13)
)

// series are the metrics that are updated by events and calls, not at a scrape.
type series struct {
	claims        *prometheus.CounterVec
	claimSeconds  prometheus.Observer
	fenced        prometheus.Counter
	renewSeconds  prometheus.Observer
	selfFences    *prometheus.CounterVec
	handover      *prometheus.HistogramVec
	guardKills    prometheus.Counter
	resyncs       *prometheus.CounterVec
	storeSeconds  *prometheus.HistogramVec
	storeErrors   *prometheus.CounterVec
	orphans       prometheus.Counter
	moves         prometheus.Counter
	runs          *prometheus.HistogramVec
	handlerErrors *prometheus.CounterVec
	corrupt       prometheus.Counter
	logErrors     prometheus.Counter
	brakes        prometheus.Counter
	electionsLed  prometheus.Gauge
	terms         prometheus.Counter
}

// newSeries returns the series, also as a list to be registered.
func newSeries() (s *series, all []prometheus.Collector) {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		all = append(all, c)
		return c
	}
	counter := func(name, help string) prometheus.Counter { return counters(name, help).WithLabelValues() }
	histograms := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		all = append(all, h)
		return h
	}
	histogram := func(name, help string, buckets []float64) prometheus.Observer {
		return histograms(name, help, buckets).WithLabelValues()
	}
	led := prometheus.NewGauge(prometheus.GaugeOpts{Name: "windlass_elections_led", Help: "Elections that this process leads, of those that were attached."})
	all = append(all, led)
	s = &series{
		claims:        counters("windlass_claims_total", "Claims that were tried: won, lost to another or refused, of an unknown outcome, or failed.", "result"),
		claimSeconds:  histogram("windlass_claim_seconds", "Time of a call that claims, of up to 1,000 tasks.", callBuckets),
		fenced:        counter("windlass_fenced_writes_total", "Writes about a task that were refused because its claim was not held any more."),
		renewSeconds:  histogram("windlass_lease_renew_seconds", "Time of a renewal of a session that succeeded.", callBuckets),
		selfFences:    counters("windlass_self_fence_total", "Sessions that were given up, with all handlers told to stop.", "reason"),
		handover:      histograms("windlass_handover_seconds", "Time that a task could have been claimed until it was, on the node that claimed it.", waitBuckets, "cause"),
		guardKills:    counter("windlass_overlap_guard_kills_total", "Times that handlers had not returned when their claims could end, so that the fence was called."),
		resyncs:       counters("windlass_watch_resyncs_total", "Watches of the store that broke, so that everything was read anew.", "reason"),
		storeSeconds:  histograms("windlass_store_seconds", "Time of a call to the store.", callBuckets, "op"),
		storeErrors:   counters("windlass_store_errors_total", "Calls to the store, and transactions in them, that failed.", "op", "kind"),
		orphans:       counter("windlass_orphans_reconciled_total", "Claims of an unknown outcome that turned up and were adopted."),
		moves:         counter("windlass_rebalance_moves_total", "Tasks that were given away to balance."),
		runs:          histograms("windlass_run_seconds", "Time from the start of a handler until what became of its task was stored.", runBuckets, "type", "outcome"),
		handlerErrors: counters("windlass_handler_errors_total", "Errors of handlers: their tasks run again, or failed for good.", "final"),
		corrupt:       counter("windlass_unreadable_values_total", "Values in the store that could not be read, each time."),
		logErrors:     counter("windlass_command_log_errors_total", "Runs of OS commands whose output could not be written to their log."),
		brakes:        counter("windlass_brakes_total", "Times that most nodes vanished at once, so that their tasks were taken over slowly."),
		electionsLed:  led,
		terms:         counter("windlass_election_terms_total", "Terms that began in this process."),
	}
	// Rates need a zero before the first event.
	for vector, values := range map[*prometheus.CounterVec][]string{
		s.claims: claimResults, s.selfFences: {fenceDeadline, fenceExpired, fenceLost},
		s.resyncs: {resyncCompacted, resyncStalled, resyncError}, s.handlerErrors: {"false", "true"},
	} {
		for _, value := range values {
			vector.WithLabelValues(value)
		}
	}
	return s, all
}

// buildInfo returns the metric with the versions of this program.
func buildInfo() prometheus.Collector {
	version, revision := "unknown", "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
		for _, m := range info.Deps {
			if m.Path == "github.com/windlass-go/windlass" {
				version = m.Version // this is a program that uses the library
			}
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	version, revision = cmp.Or(stamp.Version, version), cmp.Or(stamp.Revision, revision)
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "windlass_build_info", Help: "Always 1; its labels say what this program is."},
		[]string{"version", "revision", "go"})
	g.WithLabelValues(version, revision, runtime.Version()).Set(1)
	return g
}
