package metrics

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/session"
)

// The results of claims, and the reasons for giving a session up.
const (
	claimWon, claimLost, claimAmbiguous, claimFailed = "won", "lost", "ambiguous", "failed"
	fenceDeadline, fenceExpired, fenceLost           = "deadline", "expired", "lost"
)

var claimResults = []string{claimWon, claimLost, claimAmbiguous, claimFailed}

// Events returns events that measure a node, and calls next for each.
func (m *Metrics) Events(next events.Node) events.Node {
	e := next
	e.Left = func(incarnation string, cause error, abandoned []string) {
		if cause != nil {
			m.series.selfFences.WithLabelValues(fenceReason(cause)).Inc()
		}
		if next.Left != nil {
			next.Left(incarnation, cause, abandoned)
		}
	}
	handover := map[events.Cause]prometheus.Observer{}
	for _, cause := range []events.Cause{events.Placed, events.Moved, events.TakenOver, events.Returned, events.Dequeued} {
		handover[cause] = m.series.handover.WithLabelValues(string(cause))
	}
	e.Granted = func(g events.Grant) {
		if o := handover[g.Cause]; o != nil { // adopted claims have not waited
			o.Observe(g.Waited.Seconds())
		}
		if next.Granted != nil {
			next.Granted(g)
		}
	}
	e.Ended = func(end events.End) {
		if end.Ran {
			m.types.observe(end)
		}
		if next.Ended != nil {
			next.Ended(end)
		}
	}
	return m.rareEvents(e, next)
}

// rareEvents adds the events that are not part of every run.
func (m *Metrics) rareEvents(e, next events.Node) events.Node {
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
	e.Balanced = func(trigger events.Trigger, released int) {
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

// fenceReason returns why a session was given up.
func fenceReason(cause error) string {
	switch {
	case errors.Is(cause, session.ErrDeadline):
		return fenceDeadline
	case errors.Is(cause, session.ErrExpired):
		return fenceExpired
	}
	return fenceLost
}

// Election returns events that measure an election, and calls next for each.
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

// coordinator wraps the coordinator of each incarnation.
func (m *Metrics) coordinator(next func(coordinator.Coordinator) coordinator.Coordinator) func(coordinator.Coordinator) coordinator.Coordinator {
	claims := m.series.claims
	return func(plain coordinator.Coordinator) coordinator.Coordinator {
		if next != nil {
			plain = next(plain)
		}
		return &claiming{Coordinator: plain, metrics: m, won: claims.WithLabelValues(claimWon), lost: claims.WithLabelValues(claimLost),
			ambiguous: claims.WithLabelValues(claimAmbiguous), failed: claims.WithLabelValues(claimFailed)}
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
		if err := results[i].Err; errors.Is(err, coordinator.ErrFenced) || errors.Is(err, broker.ErrSessionExpired) {
			c.metrics.series.fenced.Inc()
		}
	}
	return results
}

// types has the series of runs, by type and outcome. It needs no lock for known ones.
type types struct {
	max  int
	runs *prometheus.HistogramVec

	known atomic.Pointer[map[runLabels]prometheus.Observer]

	mu    sync.Mutex // for new ones
	names map[string]bool
}

func newTypes(max int, runs *prometheus.HistogramVec) *types {
	t := &types{max: max, runs: runs, names: map[string]bool{}}
	t.known.Store(&map[runLabels]prometheus.Observer{})
	return t
}

// runLabels are the type and the outcome of a run, before the types are bounded.
type runLabels struct {
	taskType string
	outcome  events.Outcome
}

func (t *types) observe(end events.End) {
	labels := runLabels{end.Type, end.Outcome}
	o := (*t.known.Load())[labels]
	if o == nil {
		o = t.add(labels)
	}
	o.Observe(end.Took.Seconds())
}

// add returns the series of new labels. It does not remember types above the bound.
func (t *types) add(labels runLabels) prometheus.Observer {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.names[labels.taskType] && len(t.names) >= t.max {
		return t.runs.WithLabelValues(TypeOther, string(labels.outcome))
	}
	t.names[labels.taskType] = true
	o := t.runs.WithLabelValues(cmp.Or(labels.taskType, TypeNone), string(labels.outcome))
	next := maps.Clone(*t.known.Load())
	next[labels] = o
	t.known.Store(&next)
	return o
}
