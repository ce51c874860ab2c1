package metrics

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/session"
)

// The results of claims, and the reasons for giving a session up.
const (
	claimWon, claimLost, claimAmbiguous, claimFailed = "won", "lost", "ambiguous", "failed"
	fenceDeadline, fenceExpired, fenceLost           = "deadline", "expired", "lost"
)

var claimResults = []string{claimWon, claimLost, claimAmbiguous, claimFailed}

// Events returns events that measure a node and are passed on to next.
func (m *Metrics) Events(next windlass.Events) windlass.Events {
	e := next
	e.Left = func(incarnation string, cause error, abandoned []string) {
		if cause != nil {
			m.series.selfFences.WithLabelValues(fenceReason(cause)).Inc()
		}
		if next.Left != nil {
			next.Left(incarnation, cause, abandoned)
		}
	}
	handover := map[windlass.GrantCause]prometheus.Observer{}
	for _, cause := range []windlass.GrantCause{windlass.GrantPlaced, windlass.GrantMoved, windlass.GrantTakenOver, windlass.GrantReturned, windlass.GrantDequeued} {
		handover[cause] = m.series.handover.WithLabelValues(string(cause))
	}
	e.Granted = func(g windlass.Grant) {
		if o := handover[g.Cause]; o != nil { // one that was adopted has not waited
			o.Observe(g.Waited.Seconds())
		}
		if next.Granted != nil {
			next.Granted(g)
		}
	}
	e.Ended = func(end windlass.End) {
		if end.Ran {
			m.types.observe(end)
		}
		if next.Ended != nil {
			next.Ended(end)
		}
	}
	return m.rareEvents(e, next)
}

// rareEvents are those that happen when something is amiss, or changes.
func (m *Metrics) rareEvents(e, next windlass.Events) windlass.Events {
	e.Errored = func(task string, err error, until time.Time) {
		m.series.handlerErrors.WithLabelValues(strconv.FormatBool(until.IsZero())).Inc()
		if next.Errored != nil {
			next.Errored(task, err, until)
		}
	}
	e.Adopted = func(task string, token int64) {
		m.series.orphans.Inc()
		if next.Adopted != nil {
			next.Adopted(task, token)
		}
	}
	e.Balanced = func(trigger windlass.Trigger, released int) {
		m.series.moves.Add(float64(released))
		if next.Balanced != nil {
			next.Balanced(trigger, released)
		}
	}
	e.Corrupt = func(key string, err error) {
		m.series.corrupt.Inc()
		if next.Corrupt != nil {
			next.Corrupt(key, err)
		}
	}
	e.Braked = func(vanished, perSecond int) {
		m.series.brakes.Inc()
		if next.Braked != nil {
			next.Braked(vanished, perSecond)
		}
	}
	return e
}

// fenceReason is why a session was given up.
func fenceReason(cause error) string {
	switch {
	case errors.Is(cause, session.ErrDeadline):
		return fenceDeadline
	case errors.Is(cause, session.ErrExpired):
		return fenceExpired
	}
	return fenceLost
}

// Election returns events that measure an election and are passed on to next.
func (m *Metrics) Election(next election.Events) election.Events {
	e := next
	e.Elected = func(t election.Term) {
		m.series.electionsLed.Inc()
		m.series.terms.Inc()
		if next.Elected != nil {
			next.Elected(t)
		}
	}
	e.Unelected = func(t election.Term, cause error) {
		m.series.electionsLed.Dec()
		if next.Unelected != nil {
			next.Unelected(t, cause)
		}
	}
	return e
}

// coordinator wraps that of each incarnation.
func (m *Metrics) coordinator(next func(coordinator.Coordinator) coordinator.Coordinator) func(coordinator.Coordinator) coordinator.Coordinator {
	results := map[string]prometheus.Counter{}
	for _, r := range claimResults {
		results[r] = m.series.claims.WithLabelValues(r)
	}
	return func(plain coordinator.Coordinator) coordinator.Coordinator {
		if next != nil {
			plain = next(plain)
		}
		return &claiming{Coordinator: plain, metrics: m, won: results[claimWon], lost: results[claimLost],
			ambiguous: results[claimAmbiguous], failed: results[claimFailed]}
	}
}

// claiming is a coordinator whose claims and endings are counted.
type claiming struct {
	coordinator.Coordinator
	metrics                      *Metrics
	won, lost, ambiguous, failed prometheus.Counter
}

// Claim implements coordinator.Coordinator.
func (c *claiming) Claim(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
	began := time.Now()
	results := c.Coordinator.Claim(ctx, wanted)
	since(c.metrics.series.claimSeconds, began)
	for i := range results {
		switch err := results[i].Err; {
		case err == nil:
			c.won.Inc()
		case errors.Is(err, coordinator.ErrOwned), errors.Is(err, coordinator.ErrGone), errors.Is(err, coordinator.ErrBlocked), errors.Is(err, coordinator.ErrChanged):
			c.lost.Inc()
		case broker.MaybeApplied(err):
			c.ambiguous.Inc()
		default:
			c.failed.Inc()
		}
	}
	return results
}

// End implements coordinator.StateStore.
func (c *claiming) End(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
	results := c.Coordinator.End(ctx, endings)
	for i := range results {
		if err := results[i].Err; err != nil && (errors.Is(err, coordinator.ErrFenced) || errors.Is(err, broker.ErrSessionExpired)) {
			c.metrics.series.fenced.Inc()
		}
	}
	return results
}

// types has the series of runs, by type and outcome, without a lock for those that
// it has seen before.
type types struct {
	max  int
	runs *prometheus.HistogramVec

	known atomic.Pointer[map[runLabels]prometheus.Observer]

	mu    sync.Mutex // for what is new
	names map[string]bool
}

// runLabels are of a run, before the type is bounded.
type runLabels struct {
	taskType string
	outcome  windlass.Outcome
}

func (t *types) observe(end windlass.End) {
	labels := runLabels{end.Type, end.Outcome}
	known := t.known.Load()
	if known != nil {
		if o := (*known)[labels]; o != nil {
			o.Observe(end.Took.Seconds())
			return
		}
	}
	t.add(labels).Observe(end.Took.Seconds())
}

// add finds the series of labels that are new. Types above the bound are looked up
// each time: what is remembered is bounded, too.
func (t *types) add(labels runLabels) prometheus.Observer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.names[labels.taskType] && len(t.names) >= t.max {
		return t.runs.WithLabelValues(TypeOther, string(labels.outcome))
	}
	if t.names == nil {
		t.names = map[string]bool{}
	}
	t.names[labels.taskType] = true
	name := labels.taskType
	if name == "" {
		name = TypeNone
	}
	o := t.runs.WithLabelValues(name, string(labels.outcome))
	next := map[runLabels]prometheus.Observer{labels: o}
	if known := t.known.Load(); known != nil {
		for l, observer := range *known {
			next[l] = observer
		}
	}
	t.known.Store(&next)
	return o
}
