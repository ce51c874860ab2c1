package session

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// Silence tells which sessions in a folder are not renewed. It remembers what it has seen, so that
// asking again costs a read and no wait. The zero value is ready. Its methods may be called
// concurrently.
type Silence struct {
	mu      sync.Mutex
	suspect map[broker.SessionID]suspicion
}

// suspicion is a renewal that is overdue by the clocks.
type suspicion struct {
	Renewal
	// first and last are when it was seen so.
	first, last time.Time
	// wrong is set once another renewal has come that was overdue as well: the clock of its
	// process says nothing.
	wrong bool
}

const (
	// confirmMax is the longest time until a second look: one and a half times the longest between
	// two renewals.
	confirmMax = 15 * time.Second
	// rememberMax is how long a suspicion is kept that nobody looks at.
	rememberMax = time.Minute
	// silenceEvery is the time between the looks of WatchSilence.
	silenceEvery = 5 * time.Second
)

// Of returns which of some sessions, or of all without any, are not renewed, and when each was
// last, by the clock of its process. If the clocks say that of one, Of looks again after it should
// have been renewed, so that nobody is accused for a clock. If ctx ends before that, the clocks
// have the last word. Errors are the broker's.
func (s *Silence) Of(ctx context.Context, b broker.Broker, folder string, ids ...broker.SessionID) (map[broker.SessionID]time.Time, error) {
	read, err := ReadRenewals(ctx, b, folder, ids...)
	if err != nil {
		return nil, err
	}
	silent, waiting, wait := s.look(read, time.Now())
	by, bounded := ctx.Deadline()
	if len(waiting) == 0 || bounded && time.Until(by) < 2*wait || !pause.For(ctx, wait) {
		maps.Copy(silent, waiting)
		return silent, nil
	}
	if read, err = ReadRenewals(ctx, b, folder, slices.Collect(maps.Keys(waiting))...); err != nil {
		return nil, err
	}
	confirmed, _, _ := s.look(read, time.Now())
	for id, at := range waiting {
		if _, there := read[id]; !there { // it was ended meanwhile, for its silence
			confirmed[id] = at
		}
	}
	maps.Copy(silent, confirmed)
	return silent, nil
}

// look returns the sessions that are overdue: those that were already when they should have been
// renewed, those that are for the first time, and how long until these should have been.
func (s *Silence) look(read Renewals, now time.Time) (silent, waiting map[broker.SessionID]time.Time, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	silent, waiting = map[broker.SessionID]time.Time{}, map[broker.SessionID]time.Time{}
	if s.suspect == nil {
		s.suspect = map[broker.SessionID]suspicion{}
	}
	for id, renewal := range read {
		if !read.Overdue(id, now) {
			delete(s.suspect, id)
			continue
		}
		known, again := s.suspect[id]
		if known.Renewal != renewal {
			known = suspicion{Renewal: renewal, first: now, wrong: again}
		}
		known.last = now
		s.suspect[id] = known
		left := min(Derive(renewal.TTL).Renew*3/2, confirmMax) - now.Sub(known.first)
		switch {
		case known.wrong && now.Sub(known.first) > renewal.TTL:
			silent[id] = known.first
		case known.wrong:
		case left > 0:
			waiting[id], wait = renewal.At, max(wait, left)
		default:
			silent[id] = renewal.At
		}
	}
	maps.DeleteFunc(s.suspect, func(_ broker.SessionID, known suspicion) bool { return now.Sub(known.last) > rememberMax })
	return silent, waiting, wait
}

// WatchSilence calls told with the sessions in a folder that are not renewed, as Silence.Of tells
// them, whenever these are others than before, until ctx ends. It looks every few seconds, at the
// sessions that of returns, or at all if of is nil.
func WatchSilence(ctx context.Context, b broker.Broker, folder string, of func() []broker.SessionID, told func(map[broker.SessionID]time.Time)) {
	var s Silence
	var before map[broker.SessionID]time.Time
	for ctx.Err() == nil {
		var ids []broker.SessionID
		var now map[broker.SessionID]time.Time
		var err error
		if of != nil {
			ids = of()
		}
		if of == nil || len(ids) > 0 { // Of takes none for all
			now, err = s.Of(ctx, b, folder, ids...)
		}
		if err == nil && ctx.Err() == nil && !maps.EqualFunc(before, now, time.Time.Equal) { // who watches is told of errors by what it watches
			before = now
			told(now)
		}
		pause.For(ctx, silenceEvery)
	}
}
