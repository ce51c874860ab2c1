package metrics

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windlass-go/windlass/broker"
)

// op is a call to the store.
type op int

const (
	opGet op = iota
	opList
	opCommit
	opGrant
	opKeepAlive
	opRevoke
	opWatch // the last one, because its time is not measured
)

// String returns the value of the label op.
func (o op) String() string {
	return [...]string{"get", "list", "commit", "grant", "keepalive", "revoke", "watch"}[o]
}

const (
	resyncCompacted, resyncStalled, resyncError   = "compacted", "stalled", "error"
	watchTasks, watchNodes, watchOther, kindOther = "tasks", "nodes", "other", "other"
)

// kinds are the errors of a broker and their values of the label kind. ErrNotFound is no
// failure.
var kinds = []struct {
	err  error
	name string
}{
	{broker.ErrCompacted, "compacted"}, {broker.ErrUnavailable, "unavailable"}, {broker.ErrNoQuorum, "no_quorum"}, {broker.ErrNoSpace, "no_space"},
	{broker.ErrTooLarge, "too_large"}, {broker.ErrPermission, "permission"}, {broker.ErrSessionExpired, "session_expired"},
	{broker.ErrInvalid, "invalid"}, {broker.ErrClosed, "closed"},
}

// Broker returns a broker whose calls are measured. Closing it closes b.
func (m *Metrics) Broker(b broker.Broker) broker.Broker {
	measuring := &measured{inner: b, metrics: m, flow: m.flow}
	for o := range opWatch {
		measuring.seconds[o] = m.series.storeSeconds.WithLabelValues(o.String())
	}
	return measuring
}

// measured is a broker whose calls are measured.
type measured struct {
	inner   broker.Broker
	metrics *Metrics
	flow    *flow
	seconds [opWatch]prometheus.Observer
}

var _ broker.Broker = (*measured)(nil)

// called observes a call that has ended.
func (b *measured) called(ctx context.Context, o op, began time.Time, err error) {
	since(b.seconds[o], began)
	b.failed(ctx, o, err)
}

// failed counts an error, unless the caller has cancelled the call.
func (b *measured) failed(ctx context.Context, o op, err error) {
	if err == nil || errors.Is(err, broker.ErrNotFound) || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	name := kindOther
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			name = k.name
			break
		}
	}
	b.metrics.series.storeErrors.WithLabelValues(o.String(), name).Inc()
}

// since observes a time in seconds.
func since(o prometheus.Observer, began time.Time) { o.Observe(time.Since(began).Seconds()) }

// Get implements broker.Broker.
func (b *measured) Get(ctx context.Context, key string) (broker.KV, error) {
	began := time.Now()
	kv, err := b.inner.Get(ctx, key)
	b.called(ctx, opGet, began, err)
	return kv, err
}

// List implements broker.Broker.
func (b *measured) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) {
		began := time.Now()
		for page, err := range b.inner.List(ctx, prefix) {
			b.failed(ctx, opList, err)
			b.flow.saw(page.Revision)
			if !yield(page, err) {
				return
			}
		}
		since(b.seconds[opList], began)
	}
}

// Commit implements broker.Broker.
func (b *measured) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	began := time.Now()
	results := b.inner.Commit(ctx, txns...)
	since(b.seconds[opCommit], began)
	for _, r := range results {
		b.failed(ctx, opCommit, r.Err)
		b.flow.saw(r.Revision)
	}
	return results
}

// Watch implements broker.Broker.
func (b *measured) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		position := b.flow.open(b.subject(prefix), from-1)
		defer b.flow.close(position)
		for batch, err := range b.inner.Watch(ctx, prefix, from) {
			switch {
			case err == nil:
				b.flow.saw(batch.Revision)
				position.at.Store(int64(batch.Revision))
			case ctx.Err() == nil: // the caller did not end it
				b.failed(ctx, opWatch, err)
				b.metrics.series.resyncs.WithLabelValues(resyncReason(err)).Inc()
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// resyncReason returns why a watch broke.
func resyncReason(err error) string {
	switch {
	case errors.Is(err, broker.ErrCompacted):
		return resyncCompacted
	case errors.Is(err, broker.ErrSilent):
		return resyncStalled
	}
	return resyncError
}

// subject returns what a watch is of: one of three words, so that the labels are bounded.
func (b *measured) subject(prefix string) string {
	rest, inside := strings.CutPrefix(prefix, b.metrics.config.Namespace+"/")
	name, _, _ := strings.Cut(rest, "/")
	if inside && (name == watchTasks || name == watchNodes) {
		return name
	}
	return watchOther
}

// Grant implements broker.Broker.
func (b *measured) Grant(ctx context.Context, folder string, ttl time.Duration) (broker.Session, error) {
	began := time.Now()
	s, err := b.inner.Grant(ctx, folder, ttl)
	b.called(ctx, opGrant, began, err)
	return s, err
}

// KeepAlive implements broker.Broker.
func (b *measured) KeepAlive(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	began := time.Now()
	ttl, err := b.inner.KeepAlive(ctx, id)
	b.called(ctx, opKeepAlive, began, err)
	if err == nil {
		since(b.metrics.series.renewSeconds, began)
	}
	return ttl, err
}

// Revoke implements broker.Broker.
func (b *measured) Revoke(ctx context.Context, id broker.SessionID) error {
	began := time.Now()
	err := b.inner.Revoke(ctx, id)
	b.called(ctx, opRevoke, began, err)
	return err
}

// Close implements broker.Broker.
func (b *measured) Close() error { return b.inner.Close() }

// Unwrap returns the broker that is measured.
func (b *measured) Unwrap() broker.Broker { return b.inner }

// flow has the latest revision of the store that this process has seen, and the revisions
// that its watches have reached.
type flow struct {
	head atomic.Int64

	mu      sync.Mutex
	watches map[*position]struct{}
}

// position is the revision that a watch has reached.
type position struct {
	subject string
	at      atomic.Int64
}

// saw records a revision of the store.
func (f *flow) saw(revision broker.Revision) {
	for {
		head := f.head.Load()
		if int64(revision) <= head || f.head.CompareAndSwap(head, int64(revision)) {
			return
		}
	}
}

func (f *flow) open(subject string, at broker.Revision) *position {
	p := &position{subject: subject}
	p.at.Store(int64(at))
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watches[p] = struct{}{}
	return p
}

func (f *flow) close(p *position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watches, p)
}

// lag returns by how many revisions the slowest watch of each subject lags behind.
func (f *flow) lag() map[string]int64 {
	head := f.head.Load()
	f.mu.Lock()
	defer f.mu.Unlock()
	lag := map[string]int64{}
	for p := range f.watches {
		lag[p.subject] = max(lag[p.subject], head-p.at.Load())
	}
	return lag
}
