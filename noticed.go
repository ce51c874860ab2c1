package windlass

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// noticedWrites is a broker that remembers what of a copy was written through it, until
// the copy has it.
type noticedWrites struct {
	broker.Broker
	prefixes [sourceCount]string

	mu sync.Mutex
	// copy is the one that is kept up, nil for none.
	copy    *taskWatch
	sources [sourceCount]noticed
	// arrival is closed when the copy changes.
	arrival chan struct{}
	// unsure is until when the copy may lack a write whose outcome was unknown. Whoever finds
	// out that it was applied learns no revision to wait for.
	unsure time.Time
}

// noticed is what was written below one prefix.
type noticed struct {
	// at is the revision up to which the copy has everything.
	at broker.Revision
	// put is the revision of the last put: the copy comes to have that.
	put broker.Revision
	// deleted are the revisions of the deletions of keys that the copy may still have, and
	// last is the latest of them. That of a key that was not there changes nothing, so the
	// copy need not come to have a revision for it.
	deleted map[string]broker.Revision
	last    broker.Revision
}

func noticeWrites(b broker.Broker, of *board) *noticedWrites {
	n := &noticedWrites{Broker: b, arrival: make(chan struct{})}
	for i, source := range of.sources() {
		n.prefixes[i] = source.Prefix
	}
	return n
}

// follow begins with a copy that has nothing yet; nil ends that.
func (n *noticedWrites) follow(w *taskWatch) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.copy = w
	for i := range n.sources {
		n.sources[i] = noticed{deleted: map[string]broker.Revision{}}
	}
	n.wake()
}

func (n *noticedWrites) wake() {
	close(n.arrival)
	n.arrival = make(chan struct{})
}

// Commit implements broker.Broker.
func (n *noticedWrites) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	results := n.Broker.Commit(ctx, txns...)
	for i, r := range results {
		ops := txns[i].Else
		if r.OK {
			ops = txns[i].Then
		}
		switch {
		case r.Err == nil:
			n.notice(ops, r.Revision)
		case broker.MaybeApplied(r.Err):
			n.mu.Lock()
			n.unsure = time.Now().Add(broker.ProgressMax) // a watch that is behind by more has ended
			n.mu.Unlock()
		}
	}
	return results
}

func (n *noticedWrites) notice(ops []broker.Op, at broker.Revision) {
	n.mu.Lock()
	w := n.copy
	for _, op := range ops {
		i := slices.IndexFunc(n.prefixes[:], func(prefix string) bool { return strings.HasPrefix(op.Key, prefix) })
		if w == nil || i < 0 || n.sources[i].at >= at {
			continue
		}
		switch s := &n.sources[i]; op.Kind {
		case broker.OpPut:
			s.put = max(s.put, at)
		case broker.OpDelete:
			s.deleted[op.Key], s.last = at, max(s.last, at)
		}
	}
	n.mu.Unlock() // who holds the copy's lock asks here
	for _, op := range ops {
		if w != nil && op.Kind == broker.OpDelete {
			w.deleted(op.Key)
		}
	}
}

// own tells whether a key was deleted at a revision by a write that was noticed.
func (n *noticedWrites) own(key string, at broker.Revision) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.sources[:], func(s noticed) bool { return s.deleted[key] == at })
}

// arrived takes notice of what the copy has got.
func (n *noticedWrites) arrived(u sourced) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := &n.sources[u.source]
	s.at = max(s.at, u.revision())
	if s.at >= s.last {
		clear(s.deleted)
	}
	n.wake()
}

// wait waits until the copy has what was written before; false if that takes too long or is
// not known, or there is no copy any more.
func (n *noticedWrites) wait(ctx context.Context, most time.Duration) bool {
	n.mu.Lock()
	before, unsure := n.sources, time.Now().Before(n.unsure)
	n.mu.Unlock()
	if unsure {
		return false
	}
	var timeout <-chan time.Time
	for {
		n.mu.Lock()
		w, arrival := n.copy, n.arrival
		there, unless := n.upTo(&before)
		n.mu.Unlock()
		switch {
		case w == nil:
			return false
		case there && !w.hasAny(unless):
			return true
		case timeout == nil:
			timeout = time.After(most)
		}
		select {
		case <-arrival:
		case <-timeout:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// upTo tells whether the copy has what was written by some time, unless it has some keys
// that are deleted by now.
func (n *noticedWrites) upTo(before *[sourceCount]noticed) (there bool, unless []string) {
	for i := range n.sources {
		now := &n.sources[i]
		if now.at < before[i].put {
			return false, nil
		}
		if now.at < before[i].last {
			unless = slices.AppendSeq(unless, maps.Keys(now.deleted))
		}
	}
	return true, unless
}
