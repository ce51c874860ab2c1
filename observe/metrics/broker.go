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

// The calls to the store, as in the label op.
const (
	opGet, opList, opCommit                       = "get", "list", "commit"
	opWatch, opGrant, opKeepAlive, opRevoke       = "watch", "grant", "keepalive", "revoke"
	resyncCompacted, resyncStalled, resyncError   = "compacted", "stalled", "error"
	watchTasks, watchNodes, watchOther, kindOther = "tasks", "nodes", "other", "other"
)

// kinds are the errors of a broker, as in the label kind. ErrNotFound is left out,
// because it is an answer.
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
	timed := map[string]prometheus.Observer{}
	for _, op := range []string{opGet, opList, opCommit, opGrant, opKeepAlive, opRevoke} {
		timed[op] = m.series.storeSeconds.WithLabelValues(op)
	}
	return &measured{inner: b, metrics: m, flow: m.flow, root: m.config.Namespace + "/",
		get: timed[opGet], list: timed[opList], commit: timed[opCommit],
		grant: timed[opGrant], keepAlive: timed[opKeepAlive], revoke: timed[opRevoke]}
}

// measured is a broker whose calls are measured.
type measured struct {
	inner   broker.Broker
	metrics *Metrics
	flow    *flow
	// root of the namespace, with a slash.
	root string
	// The times of calls; each is found once, and not for every call.
	get, list, commit, grant, keepAlive, revoke prometheus.Observer
}

var _ broker.Broker = (*measured)(nil)

// failed counts an error, unless the caller had lost its interest.
func (b *measured) failed(ctx context.Context, op string, err error) {
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
	b.metrics.series.storeErrors.WithLabelValues(op, name).Inc()
}

// since observes a time in seconds.
func since(o prometheus.Observer, began time.Time) { o.Observe(time.Since(began).Seconds()) }

// Get implements broker.Broker.
func (b *measured) Get(ctx context.Context, key string) (broker.KV, error) {
	began := time.Now()
	kv, err := b.inner.Get(ctx, key)
	since(b.get, began)
	b.failed(ctx, opGet, err)
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
		since(b.list, began)
	}
}

// Commit implements broker.Broker.
func (b *measured) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	began := time.Now()
	results := b.inner.Commit(ctx, txns...)
	since(b.commit, began)
	for i := range results {
		if results[i].Err != nil {
			b.failed(ctx, opCommit, results[i].Err)
			continue
		}
		b.flow.saw(results[i].Revision)
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
			case ctx.Err() == nil: // its owner did not end it
				b.failed(ctx, opWatch, err)
				b.metrics.series.resyncs.WithLabelValues(resyncReason(err)).Inc()
			}
			if !yield(batch, err) {
				return
			}
		}
	}
}

// resyncReason is why a watch broke.
func resyncReason(err error) string {
	switch {
	case errors.Is(err, broker.ErrCompacted):
		return resyncCompacted
	case errors.Is(err, broker.ErrSilent):
		return resyncStalled
	}
	return resyncError
}

// subject is what a watch is of: one of a few words, whatever is in the key.
func (b *measured) subject(prefix string) string {
	rest, inside := strings.CutPrefix(prefix, b.root)
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
	since(b.grant, began)
	b.failed(ctx, opGrant, err)
	return s, err
}

// KeepAlive implements broker.Broker.
func (b *measured) KeepAlive(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	began := time.Now()
	ttl, err := b.inner.KeepAlive(ctx, id)
	since(b.keepAlive, began)
	if b.failed(ctx, opKeepAlive, err); err == nil {
		since(b.metrics.series.renewSeconds, began)
	}
	return ttl, err
}

// Revoke implements broker.Broker.
func (b *measured) Revoke(ctx context.Context, id broker.SessionID) error {
	began := time.Now()
	err := b.inner.Revoke(ctx, id)
	since(b.revoke, began)
	b.failed(ctx, opRevoke, err)
	return err
}

// Close implements broker.Broker.
func (b *measured) Close() error { return b.inner.Close() }

// Unwrap returns the broker that is measured.
func (b *measured) Unwrap() broker.Broker { return b.inner }

// flow knows the latest revision of the store that this process has seen, and the
// revisions that its watches have reached.
type flow struct {
	head atomic.Int64

	mu      sync.Mutex // for opening, closing and scraping
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
	if f.watches == nil {
		f.watches = map[*position]struct{}{}
	}
	f.watches[p] = struct{}{}
	return p
}

func (f *flow) close(p *position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watches, p)
}

// lag returns how far the last of the watches of each subject lags behind.
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
