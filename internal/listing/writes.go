package listing

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
)

// noticedWrites is a broker that remembers which writes to the copied prefixes went
// through it, until the copy has them.
type noticedWrites struct {
	broker.Broker
	prefixes [sourceCount]string

	mu sync.Mutex
	// copy is the copy that is kept current, nil for none.
	copy    *watch
	sources [sourceCount]noticed
	// arrival is closed when the copy changes.
	arrival chan struct{}
	// unsure is until when the copy may lack a write whose outcome was unknown. A
	// caller that finds out that it was applied learns no revision to wait for.
	unsure time.Time
}

// noticed describes the writes below one prefix.
type noticed struct {
	// at is the revision up to which the copy is complete.
	at broker.Revision
	// put is the revision of the last put; the copy will reach it.
	put broker.Revision
	// deleted has the revisions of deletions of keys that the copy may still have; last
	// is the latest of them. Deleting an absent key changes nothing, so the copy need
	// not reach that revision.
	deleted map[string]broker.Revision
	last    broker.Revision
}

func noticeWrites(b broker.Broker, of *Index) *noticedWrites {
	n := &noticedWrites{Broker: b, arrival: make(chan struct{})}
	for i, source := range of.sources() {
		n.prefixes[i] = source.Prefix
	}
	return n
}

// follow starts with an empty copy; nil stops following.
func (n *noticedWrites) follow(w *watch) {
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
	n.mu.Unlock() // holders of the copy's lock call own
	for _, op := range ops {
		if w != nil && op.Kind == broker.OpDelete {
			w.deleted(op.Key)
		}
	}
}

// own reports whether a noticed write deleted a key at a revision.
func (n *noticedWrites) own(key string, at broker.Revision) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.ContainsFunc(n.sources[:], func(s noticed) bool { return s.deleted[key] == at })
}

// arrived records what has reached the copy.
func (n *noticedWrites) arrived(u mirror.Sourced) {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := &n.sources[u.Source]
	s.at = max(s.at, u.Revision())
	if s.at >= s.last {
		clear(s.deleted)
	}
	n.wake()
}

// wait waits until the copy has all earlier writes. It returns false if that takes too
// long or is not known, or if there is no copy any more.
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

// upTo reports whether the copy has the writes up to a given moment, provided that it
// has none of the keys in unless, which are deleted by now.
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
