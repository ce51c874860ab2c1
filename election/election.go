package election

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/session"
)

// Election is a member's part in one election. Its methods are safe for concurrent use,
// and do not use the network unless they say otherwise.
type Election struct {
	member *Member
	name   string
	entry  string // the key
	events Events
	// listens is true if Events.Leader was set.
	listens bool
	// joins belongs to the goroutine of the current candidacy.
	joins joins
	// leads has room for one call of Lead.
	leads chan struct{}

	mu sync.Mutex // never held during I/O or a callback
	// current is the latest one, nil before Start.
	current *candidacy
	// attempt is the place in the queue that is held or being sought.
	attempt *attempt
	// term is the one that this candidate leads in. Invariant: it is nil or
	// belongs to attempt.
	term *term
	// running is the term that a function runs in, which may be over.
	running *term
	// idleSince is when the last function or Unelected returned.
	idleSince time.Time
	// leader is the last known one, empty while none is known; told is the one in the
	// last event.
	leader, told string
	// changed is closed and replaced whenever one of the above changes.
	changed chan struct{}
}

// candidacy is the time from Start to Stop, including the cleanup after it.
type candidacy struct {
	// ctx ends with Stop; its cause is ErrStopped.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// stopped is when Stop was called. It is written before ctx ends.
	stopped time.Time
	// left is closed when Stop may return, done when the candidacy's goroutine has ended. The
	// cleanup in between is bounded by the context sweep.
	left, done chan struct{}
	leave      func() // closes left, once
	sweep      context.Context
	endSweep   context.CancelFunc
}

func newElection(m *Member, name string, events Events) *Election {
	return &Election{
		member: m, name: name, entry: m.space.Candidate(name, m.config.Candidate), events: events.withDefaults(), listens: events.Leader != nil,
		leads: make(chan struct{}, 1), changed: make(chan struct{}),
	}
}

// Name returns the name of the election.
func (e *Election) Name() string { return e.name }

// Start joins the election as soon as the member's Run has a session for it. Calling it
// twice has no further effect; after Stop it joins again. The only error is ErrStopped,
// if the member's Run has come to its end.
func (e *Election) Start() error {
	m := e.member
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		return ErrStopped
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isRunning() {
		return nil
	}
	before := e.current
	cd := &candidacy{left: make(chan struct{}), done: make(chan struct{})}
	cd.ctx, cd.cancel = context.WithCancelCause(context.Background())
	cd.sweep, cd.endSweep = context.WithCancel(context.Background())
	cd.leave = sync.OnceFunc(func() { close(cd.left) })
	e.current = cd
	e.broadcast()
	if before != nil {
		before.endSweep() // the new candidacy cleans up instead
	}
	m.work.Go(func() {
		defer close(cd.done)
		defer cd.leave()
		if before != nil {
			<-before.done
		}
		e.run(cd)
	})
	return nil
}

// Stop leaves the election. The function that leads is told to return, then the entry
// is deleted, so that the next candidate leads at once. Stop waits for both: for the
// function as long as ctx permits, for the broker one Try of the session (see
// session.Timing). An entry that could not be deleted in that time, or that a pending
// join may still create, is deleted in the background for as long as the session lives.
// If the session was lost and the function still runs at its hard deadline, Stop
// returns ErrAbandoned. Stopping an election that is not running does nothing.
func (e *Election) Stop(ctx context.Context) error {
	cd := e.requestStop()
	if cd == nil {
		return nil
	}
	select {
	case <-cd.left:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.current == cd && e.running != nil {
		return fmt.Errorf("stop election %q: %w", e.name, ErrAbandoned)
	}
	return nil
}

// requestStop stops without waiting, and returns the candidacy to wait for, nil if none began.
func (e *Election) requestStop() *candidacy {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.isRunning() {
		e.stopCurrent()
	}
	return e.current
}

// stopCurrent stops the candidacy, which is running. e.mu is held.
func (e *Election) stopCurrent() {
	e.current.stopped = time.Now()
	e.current.cancel(ErrStopped)
	if e.attempt != nil {
		e.attempt.cancel(ErrStopped)
	}
	e.broadcast()
}

// Resign gives up the place in the queue, even the first, and joins again at the end.
// It waits until the entry is deleted. Without a place it does nothing.
func (e *Election) Resign(ctx context.Context) error {
	e.mu.Lock()
	t := e.attempt
	e.mu.Unlock()
	return e.resign(ctx, t)
}

func (e *Election) resign(ctx context.Context, t *attempt) error {
	if t == nil {
		return nil
	}
	e.cancelAttempt(t, ErrResigned)
	select {
	case <-t.over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// cancelAttempt ends an attempt for a cause; the first one counts.
func (e *Election) cancelAttempt(t *attempt, cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t.cancel(cause)
	e.broadcast()
}

// IsRunning reports whether the election was started and not stopped since.
func (e *Election) IsRunning() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.isRunning()
}

func (e *Election) isRunning() bool { return e.current != nil && e.current.ctx.Err() == nil }

// IsLeader reports whether this candidate leads. It is false as soon as the session's stop
// deadline has passed by the member's clock, even before the term has been ended.
func (e *Election) IsLeader() bool {
	_, leads := e.Term()
	return leads
}

// Term returns the term in which this candidate leads, if it does.
func (e *Election) Term() (Term, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.leading()
	return t, t != Term{}
}

// leading returns the term in which this candidate leads, zero for none. e.mu is held.
func (e *Election) leading() Term {
	if e.term == nil || !e.term.holds() {
		return Term{}
	}
	return e.term.Term
}

// CurrentLeader returns the last known leader's name, empty while none is known. For a
// candidate that is third in the queue or later, without Events.Leader, it may be outdated.
func (e *Election) CurrentLeader() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.leader
}

// Leader asks the broker who leads. The zero Leadership means that nobody does.
func (e *Election) Leader(ctx context.Context) (Leadership, error) {
	queue, _, err := queueOf(ctx, e.member.config.Broker, e.member.space, e.name)
	if err != nil || len(queue) == 0 {
		return Leadership{}, err
	}
	return leadershipOf(queue[0]), nil
}

// LeaderAlive asks the broker who leads, and returns the answer once that is no process that has
// died: its session has been renewed since, or it is this candidate, which own says. A process
// that stands for less than a TTL, and then takes the answer for the work of another, asks this.
// Run must have been called; the member's session ends that of a dead leader, within the leader's
// TTL, and the zero Leadership then says that nobody leads. Where the store ends sessions by
// itself, LeaderAlive returns at once.
func (e *Election) LeaderAlive(ctx context.Context) (now Leadership, own bool, err error) {
	m := e.member
	for asked := broker.Revision(0); ; {
		queue, _, err := queueOf(ctx, m.config.Broker, m.space, e.name)
		switch {
		case err != nil || len(queue) == 0:
			return Leadership{}, false, err
		case queue[0].Created == asked || m.owns(queue[0].Session):
			return leadershipOf(queue[0]), m.owns(queue[0].Session), nil
		}
		asked = queue[0].Created
		if err := session.AwaitRenewal(ctx, m.config.Broker, m.space.Sessions(), queue[0].Session); err != nil {
			return Leadership{}, false, err
		}
	}
}

// broadcast wakes all that wait for a change. e.mu is held.
func (e *Election) broadcast() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// learn records who leads. An empty name means that no leader is known, which is not an
// event.
func (e *Election) learn(leader string) {
	e.mu.Lock()
	if e.leader != leader {
		e.leader = leader
		e.broadcast()
	}
	isNews := leader != "" && e.told != leader
	if isNews {
		e.told = leader
	}
	e.mu.Unlock()
	if isNews {
		e.events.Leader(leader)
	}
}

// runningOn reports whether a function runs in a term of a session, and when to ask
// again. A nil session means any.
func (e *Election) runningOn(s *session.Session) (bool, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running != nil && (s == nil || e.running.attempt.session == s), e.changed
}
