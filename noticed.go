package windlass

import (
	"context"
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
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.copy == nil {
		return results
	}
	for i, r := range results {
		ops := txns[i].Else
		if r.OK {
			ops = txns[i].Then
		}
		if r.Err != nil {
			continue
		}
		for _, op := range ops {
			n.notice(op, r.Revision)
		}
	}
	return results
}

func (n *noticedWrites) notice(op broker.Op, at broker.Revision) {
	i := slices.IndexFunc(n.prefixes[:], func(prefix string) bool { return strings.HasPrefix(op.Key, prefix) })
	if i < 0 || n.sources[i].at >= at {
		return
	}
	switch s := &n.sources[i]; op.Kind {
	case broker.OpPut:
		s.put = max(s.put, at)
	case broker.OpDelete:
		if s.at == 0 || s.put > s.at || n.has(op.Key) {
			s.deleted[op.Key], s.last = at, max(s.last, at)
		}
	}
}

func (n *noticedWrites) has(key string) bool {
	n.copy.mu.RLock()
	defer n.copy.mu.RUnlock()
	return n.copy.board.has(key)
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

// wait waits until the copy has what was written before; false if that takes too long, or
// there is no copy any more.
func (n *noticedWrites) wait(ctx context.Context, most time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	before := n.sources
	var timeout <-chan time.Time
	for n.copy != nil {
		if n.upTo(&before) {
			return true
		}
		if timeout == nil {
			timeout = time.After(most)
		}
		arrival := n.arrival
		n.mu.Unlock()
		select {
		case <-arrival:
		case <-timeout:
			n.mu.Lock()
			return false
		case <-ctx.Done():
			n.mu.Lock()
			return false
		}
		n.mu.Lock()
	}
	return false
}

// upTo tells whether the copy has what was written by some time.
func (n *noticedWrites) upTo(before *[sourceCount]noticed) bool {
	for i := range n.sources {
		now := &n.sources[i]
		if now.at < before[i].put {
			return false
		}
		if now.at >= before[i].last {
			continue
		}
		for key := range now.deleted {
			if n.has(key) {
				return false
			}
		}
	}
	return true
}
