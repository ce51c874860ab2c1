package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/invalid"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/layout"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/session"
)

// TTLDefault is the default TTL: a leader without contact is replaced after it.
const TTLDefault = 10 * time.Second

// backoffMin is about the first pause after a call that failed; the longest is the time
// between two renewals.
const backoffMin = 100 * time.Millisecond

// pastMax limits the earlier sessions that are remembered. Each lasts at most a TTL longer,
// and none is lost in much less than one.
const pastMax = 16

// Config configures a member. Broker, Namespace and Candidate are required; the zero
// value of every other field works.
type Config struct {
	// Broker is the store. The caller closes it, after Run.
	Broker broker.Broker
	// Namespace is the namespace of the elections.
	Namespace string
	// Candidate is the member's name in all its elections. Only one live session at a
	// time has a name; it is at most 128 bytes, without a slash.
	Candidate string
	// TTL is the TTL of the session. Zero means TTLDefault; the range is that of
	// package session.
	TTL time.Duration
	// Clock reads the clocks that deadlines are kept by; see session.Config. Nil means
	// the machine's clocks.
	Clock func() (boot, day time.Duration)
	// Renewed, if set, is called after every renewal with two readings of Clock's boot:
	// when a leading function is told to stop, and when it must have returned. Both
	// hold unless the time of day is set forward meanwhile. Renewed must not block.
	Renewed func(stop, hard time.Duration)
	// Fence, if set, is called with the names of the elections whose functions still
	// run when the hard deadline of their session passes. Another leader may begin soon
	// after. It must not wait for anything; it is meant to end the process.
	Fence func(elections []string)
}

// Member takes part in any number of elections with one session. Its methods are safe
// for concurrent use.
type Member struct {
	config Config
	space  keys.Space
	timing session.Timing // of what is asked for
	work   sync.WaitGroup // every goroutine of the member and of its elections
	// lost are sessions that are still to be ended at the broker.
	lost session.Past

	mu        sync.Mutex // never held during I/O or a callback; taken before an Election's
	elections map[string]*Election
	// running is true once Run was called, ended once it has begun to stop.
	// Invariant: only Run adds to work once ended is set.
	running, ended bool
	// session is the last one, which may be over; nil before the first.
	session *session.Session
	// trouble is why no other could be opened, nil once one was.
	trouble error
	// past has earlier sessions, which the broker may still have; at most pastMax.
	past []broker.SessionID
	// changed is closed and replaced whenever session or trouble changes.
	changed chan struct{}
	// closed is closed by Host.Close, after which nothing keeps a hosted member's sessions.
	closed chan struct{}
}

// New checks the configuration. It makes no call to the broker before Run.
func New(config Config) (*Member, error) {
	if config.Broker == nil {
		return nil, &invalid.Input{Field: "Broker", Limit: "is required"}
	}
	space, err := keys.New(config.Namespace)
	if err != nil {
		return nil, err
	}
	if err := keys.CheckCandidateName(config.Candidate); err != nil {
		return nil, err
	}
	if session.CheckTTL(config.TTL) != nil {
		return nil, &invalid.Input{Field: "TTL", Value: config.TTL.String(), Limit: fmt.Sprintf("must be between %v and %v", session.TTLMin, session.TTLMax)}
	}
	config.TTL = cmp.Or(config.TTL, TTLDefault)
	return &Member{
		config: config, space: space, timing: session.Derive(config.TTL), elections: map[string]*Election{},
		changed: make(chan struct{}), closed: make(chan struct{}),
	}, nil
}

// Candidate returns the name of the member in its elections.
func (m *Member) Candidate() string { return m.config.Candidate }

// Election returns the member's part in an election, which the caller then starts. A
// member has only one for each name, or it would compete with itself.
func (m *Member) Election(name string, events Events) (*Election, error) {
	if name == keys.RetentionElection {
		return nil, &invalid.Input{Field: "election name", Value: name, Limit: "is the nodes' own"}
	}
	return m.election(name, events)
}

func (m *Member) election(name string, events Events) (*Election, error) {
	if err := keys.CheckElectionName(name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.elections[name] != nil {
		return nil, fmt.Errorf("election %q of member %q: %w", name, m.config.Candidate, ErrTwice)
	}
	e := newElection(m, name, events)
	m.elections[name] = e
	return e, nil
}

// Run keeps a session alive, and opens another when it is lost, until ctx ends. It then
// stops all elections, and revokes the session once every function that led has
// returned. It waits for them up to the hard deadline, and returns ErrAbandoned if one
// has not returned by then. It is called once.
//
// An unreachable broker never ends Run. Run fails only if it never had a session: with
// ErrLayout if the namespace's layout is newer than this version supports, and with
// broker.ErrPermission.
func (m *Member) Run(ctx context.Context) error {
	m.mu.Lock()
	again := m.running
	m.running = true
	m.mu.Unlock()
	if again {
		return fmt.Errorf("run of member %q: %w", m.config.Candidate, ErrTwice)
	}
	host := Host{m}
	s, release, refused := m.open(ctx, true)
	for s != nil {
		host.Attach(s)
		// Candidates, of this member too, would wait until lost sessions expire.
		_ = m.lost.Settle(ctx)
		select {
		case <-ctx.Done():
		case <-s.Context().Done():
		}
		if ctx.Err() != nil {
			break
		}
		m.retire(s, release)
		s, release, _ = m.open(ctx, false)
	}
	// After the grace the session is ended, which bounds a slow function.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), m.timing.Grace)
	defer cancel()
	err := host.Stop(grace)
	if s != nil {
		if err != nil {
			s.End(ErrStopped)
		}
		m.retire(s, release)
	}
	m.work.Wait()
	if late := host.Leading(nil); len(late) > 0 {
		return fmt.Errorf("%w: elections %q", ErrAbandoned, late)
	}
	return refused
}

// open opens a session and keeps it alive. It retries until ctx ends, and then returns
// none. For the first session it returns ErrLayout and broker.ErrPermission.
func (m *Member) open(ctx context.Context, first bool) (s *session.Session, release func(), err error) {
	wait := pause.Backoff{Min: backoffMin, Max: m.timing.Renew}
	for ctx.Err() == nil {
		if err = m.acceptLayout(ctx); err == nil {
			s, release, err = session.Keep(ctx, m.config.Broker, session.Config{
				TTL: m.config.TTL, Folder: m.space.Sessions(), Clock: m.config.Clock, Renewed: m.config.Renewed, Hard: m.fence,
			})
		}
		switch {
		case err == nil:
			return s, release, nil
		case ctx.Err() != nil:
			return nil, nil, nil
		}
		err = fmt.Errorf("open a session: %w", err)
		if first && (errors.Is(err, ErrLayout) || errors.Is(err, broker.ErrPermission)) {
			return nil, nil, err
		}
		m.mu.Lock()
		m.trouble = err
		m.broadcast()
		m.mu.Unlock()
		wait.Pause(ctx)
	}
	return nil, nil, nil
}

// acceptLayout refuses a namespace with a newer layout.
func (m *Member) acceptLayout(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.timing.Try)
	defer cancel()
	return layout.Accept(ctx, m.config.Broker, m.space)
}

// fence reports the functions that still run at the hard deadline of the session. It is
// called by the session's deadline goroutine.
func (m *Member) fence() {
	m.mu.Lock()
	s := m.session
	m.mu.Unlock()
	if late := (&Host{m}).Leading(s); len(late) > 0 && m.config.Fence != nil {
		m.config.Fence(late)
	}
}

// retire ends a session at the broker once no function relies on it, so that the next
// candidate need not wait for it to expire. After the hard deadline it lets the session
// expire.
func (m *Member) retire(s *session.Session, release func()) {
	defer release()
	host := Host{m}
	host.Settle(s)
	if len(host.Leading(s)) == 0 {
		_ = m.lost.Close(context.Background(), s) // after an error, Settle tries again
	}
}

// broadcast wakes everyone who waits for a change. m.mu is held.
func (m *Member) broadcast() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// await returns a session to use, nil if there is none and ctx has ended. It reports
// what prevents a session.
func (m *Member) await(ctx context.Context, report func(error)) *session.Session {
	var reported error
	for {
		m.mu.Lock()
		s, trouble, changed := m.session, m.trouble, m.changed
		m.mu.Unlock()
		switch {
		case s != nil && s.Context().Err() == nil:
			return s
		case ctx.Err() != nil:
			return nil
		case trouble != nil && trouble != reported:
			reported = trouble
			report(trouble)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

// owns reports whether a session is this member's present one, and not lost.
func (m *Member) owns(id broker.SessionID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.session != nil && m.session.ID() == id && m.session.Context().Err() == nil
}

// wasOurs reports whether a session was this member's before.
func (m *Member) wasOurs(id broker.SessionID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Contains(m.past, id)
}

func (m *Member) all() []*Election {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.elections))
}
