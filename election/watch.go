package election

import (
	"context"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/session"
)

// LineChange is an election whose queue has changed, or that has no candidates any
// more.
type LineChange struct {
	Election ElectionInfo
	// Gone is true if it has no candidates; only its name is set then.
	Gone bool
	// Revision is the store revision at which the watch learned of the change.
	Revision int64
}

// Watch yields the elections that have candidates, by name, and then every change of a
// queue, and of who in it is renewed, until ctx ends or the caller stops. It yields an error and
// then retries, unless it is a *windlass.BadInputError.
func Watch(ctx context.Context, b broker.Broker, namespace string) iter.Seq2[LineChange, error] {
	return func(yield func(LineChange, error) bool) {
		space, err := keys.New(namespace)
		if err != nil {
			yield(LineChange{}, err)
			return
		}
		w := lines{space: space, shown: map[string]ElectionInfo{}, yield: yield}
		inTurns(ctx, func(ctx context.Context, turn func(func() bool)) {
			follow(ctx, b, space, space.Elections(), func(s step) bool {
				turn(func() bool { return w.take(s) })
				return true
			})
		}, func(ctx context.Context, turn func(func() bool)) {
			session.WatchSilence(ctx, b, space.Sessions(), nil, func(now map[broker.SessionID]time.Time) {
				turn(func() bool { return w.fellSilent(now) })
			})
		})
	}
}

// inTurns runs two sources of work, whose turns it takes one at a time in the goroutine of its
// caller, until one returns false or ctx ends.
func inTurns(ctx context.Context, sources ...func(ctx context.Context, turn func(func() bool))) {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	turns := make(chan func())
	turn := func(take func() bool) {
		taken := make(chan struct{})
		select {
		case turns <- func() {
			defer close(taken)
			if !take() {
				stop()
			}
		}:
			<-taken
		case <-ctx.Done():
		}
	}
	for _, source := range sources {
		running.Go(func() { source(ctx, turn) })
	}
	for ctx.Err() == nil {
		select {
		case take := <-turns:
			take()
		case <-ctx.Done():
		}
	}
}

// lines is the state of a Watch.
type lines struct {
	space keys.Space
	// shown has what the caller has seen.
	shown map[string]ElectionInfo
	at    broker.Revision
	// silent has the sessions that are not renewed.
	silent map[broker.SessionID]time.Time
	yield  func(LineChange, error) bool
}

func (w *lines) take(s step) bool {
	switch {
	case s.err != nil:
		return w.yield(LineChange{}, s.err)
	case s.more:
		return true
	}
	w.at = s.at
	for _, name := range slices.Sorted(maps.Keys(s.changed)) {
		info := s.queues.info(w.space, name, w.silent)
		if before, known := w.shown[name]; known && slices.Equal(before.Candidates, info.Candidates) {
			continue // the first has noted that it leads
		}
		if !w.show(info) {
			return false
		}
	}
	return true
}

func (w *lines) fellSilent(now map[broker.SessionID]time.Time) bool {
	w.silent = now
	for _, name := range slices.Sorted(maps.Keys(w.shown)) {
		info, changed := w.shown[name], false
		info.Candidates = slices.Clone(info.Candidates)
		for i := range info.Candidates {
			c := &info.Candidates[i]
			changed = changed || !c.SilentSince.Equal(now[c.Session])
			c.SilentSince = now[c.Session]
		}
		if changed && !w.show(info) {
			return false
		}
	}
	return true
}

func (w *lines) show(info ElectionInfo) bool {
	gone := len(info.Candidates) == 0
	if w.shown[info.Name] = info; gone {
		delete(w.shown, info.Name)
	}
	return w.yield(LineChange{Election: info, Gone: gone, Revision: int64(w.at)}, nil)
}

// Observe follows who leads an election without being a candidate: it yields the
// leader, and then every change, also of whether its session is renewed, until ctx ends. It yields
// an error and then retries, unless it is a *windlass.BadInputError; after errors it yields the leader again,
// changed or not.
func Observe(ctx context.Context, b broker.Broker, namespace, election string) iter.Seq2[Leadership, error] {
	return func(yield func(Leadership, error) bool) {
		space, err := named(namespace, election)
		if err != nil {
			yield(Leadership{}, err)
			return
		}
		w := observer{election: election, yield: yield}
		inTurns(ctx, func(ctx context.Context, turn func(func() bool)) {
			follow(ctx, b, space, space.Election(election), func(s step) bool {
				turn(func() bool { return w.take(s) })
				return true
			})
		}, func(ctx context.Context, turn func(func() bool)) {
			session.WatchSilence(ctx, b, space.Sessions(), w.leading, func(now map[broker.SessionID]time.Time) {
				turn(func() bool { return w.fellSilent(now) })
			})
		})
	}
}

// observer is the state of an Observe. Its methods take turns, except leading.
type observer struct {
	election string
	// first is the entry of who leads, the zero KV for nobody, and session its session.
	first   broker.KV
	session atomic.Int64
	// silent has that session if it is not renewed.
	silent map[broker.SessionID]time.Time
	// told is what was yielded last, nil after an error.
	told  *Leadership
	yield func(Leadership, error) bool
}

// leading returns the session of who leads.
func (w *observer) leading() []broker.SessionID {
	if id := broker.SessionID(w.session.Load()); id != 0 {
		return []broker.SessionID{id}
	}
	return nil
}

func (w *observer) take(s step) bool {
	if s.err != nil {
		w.told = nil
		return w.yield(Leadership{}, s.err)
	}
	w.first = s.queues.first(w.election)
	w.session.Store(int64(w.first.Session))
	return w.tell()
}

func (w *observer) fellSilent(now map[broker.SessionID]time.Time) bool {
	w.silent = now
	return w.told == nil || w.tell()
}

// tell yields who leads, if that has changed.
func (w *observer) tell() bool {
	var now Leadership
	if w.first.Key != "" {
		now = leadershipOf(w.first)
		now.SilentSince = w.silent[w.first.Session]
	}
	if t := w.told; t != nil && t.Token == now.Token && t.Leader == now.Leader && t.SilentSince.Equal(now.SilentSince) {
		return true
	}
	w.told = &now
	return w.yield(now, nil)
}

// step is the state after a listing or after the changes of one revision.
type step struct {
	queues queues
	// changed has the elections that have changed since the last step without more.
	changed map[string]bool
	at      broker.Revision
	// more is true if later changes are available.
	more bool
	// err, if set, is an error; the other fields are then empty.
	err error
}

// follow follows the elections below a prefix until take returns false or ctx ends. A step
// has whole revisions, because half a transaction could show a leader that never led.
func follow(ctx context.Context, b broker.Broker, space keys.Space, prefix string, take func(step) bool) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s := step{queues: queues{}, changed: map[string]bool{}}
	next := func(s step) {
		if ctx.Err() == nil && !take(s) {
			stop()
		}
	}
	mirror.Follow(ctx, mirror.Source{Broker: b, Prefix: prefix, Reconcile: lookEvery}, func(u mirror.Update) {
		switch {
		case u.Err != nil:
			next(step{err: u.Err})
			return
		case u.Snapshot != nil:
			before := s.queues
			s.queues, s.at = queuesOf(space, u.Snapshot.KVs), u.Snapshot.Revision
			for _, l := range []queues{before, s.queues} {
				for name := range l {
					if !maps.EqualFunc(before[name], s.queues[name], same) {
						s.changed[name] = true
					}
				}
			}
			next(s)
		default:
			s.at = u.Batch.Revision
			for i, event := range u.Batch.Events {
				if name := s.queues.apply(space, event); name != "" {
					s.changed[name] = true
				}
				later := u.Batch.Events[i+1:]
				if s.more = len(later) > 0; !s.more || later[0].KV.Modified != event.KV.Modified {
					next(s)
				}
			}
		}
		clear(s.changed)
	})
}

// same reports whether an entry is unchanged.
func same(a, b broker.KV) bool { return a.Created == b.Created && a.Modified == b.Modified }
