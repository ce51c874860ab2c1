package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/windlass-go/windlass/broker"
)

// Store is the state that connections share. Its methods are safe for concurrent use.
type Store struct {
	historyMax int
	life       context.Context // ends with Close
	end        context.CancelFunc

	mu   sync.Mutex // never held while a caller's code runs
	keys node       // the root of all keys

	// revision is the last one assigned, compacted the last one whose changes were
	// dropped. Invariant: 0 <= compacted <= revision.
	revision, compacted broker.Revision
	// history has the changes of the revisions compacted+1 to revision, in
	// order.
	history []broker.Event

	sessions    map[broker.SessionID]*session
	lastSession broker.SessionID
	watchers    map[*watcher]struct{}
}

// HistoryMaxDefault is how many changes a store keeps for its watches by default.
const HistoryMaxDefault = 1 << 20

// Option is an option of New.
type Option func(*Store)

// HistoryMax limits how many changes the store keeps. When there are more, the older
// half is compacted away. Values below 1 mean HistoryMaxDefault.
func HistoryMax(changes int) Option {
	return func(s *Store) { s.historyMax = changes }
}

// New returns an empty store.
func New(options ...Option) *Store {
	s := &Store{sessions: map[broker.SessionID]*session{}, watchers: map[*watcher]struct{}{}}
	s.life, s.end = context.WithCancel(context.Background())
	for _, o := range options {
		o(s)
	}
	if s.historyMax < 1 {
		s.historyMax = HistoryMaxDefault
	}
	return s
}

// Broker returns a new connection, as another process would open one.
func (s *Store) Broker() *Broker {
	b := &Broker{store: s}
	b.life, b.end = context.WithCancel(s.life)
	return b
}

// Close ends every call and every connection with ErrClosed and stops the timers of the
// sessions, whose keys then stay. Closing twice is no error.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	for _, ss := range s.sessions {
		ss.timer.Stop()
	}
	return nil
}

// Revision returns the revision of the last change.
func (s *Store) Revision() broker.Revision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Compact drops the history up to and including a revision, which the store must have
// reached. If that is already gone, it is no error.
func (s *Store) Compact(ctx context.Context, rev broker.Revision) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return broker.NewError("compact", "", broker.ErrUnavailable, err)
	}
	if rev > s.revision {
		return broker.NewError("compact", "", broker.ErrInvalid,
			fmt.Errorf("revision %d: the store has only reached %d", rev, s.revision))
	}
	s.compact(rev)
	return nil
}

func (s *Store) compact(rev broker.Revision) {
	if rev <= s.compacted {
		return
	}
	// A copy, so that the memory of the dropped changes is freed.
	s.history = slices.Clone(s.history[s.index(rev+1):])
	s.compacted = rev
}

// index returns the index of the first change at a revision or later.
func (s *Store) index(rev broker.Revision) int {
	i, _ := slices.BinarySearchFunc(s.history, rev, func(e broker.Event, rev broker.Revision) int {
		return cmp.Compare(e.KV.Modified, rev)
	})
	return i
}

// record adds changes, all of the next revision, to the history.
func (s *Store) record(events []broker.Event) {
	if len(events) == 0 {
		return
	}
	s.revision++
	s.history = append(s.history, events...)
	for w := range s.watchers {
		w.offer(events, s.revision)
	}
	if n := len(s.history); n > s.historyMax {
		s.compact(s.history[n/2].KV.Modified)
	}
}
