package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/invalid"
	"github.com/windlass-go/windlass/session"
)

// Term is one period of leadership.
type Term struct {
	// Election and Candidate name the election and its leader.
	Election, Candidate string
	// Token is higher than that of every earlier term of the election.
	Token int64

	entry string
}

// Holds returns the condition that the term has not ended, for transactions that only its
// leader may make.
func (t Term) Holds() broker.Cond { return broker.Created(t.entry, broker.Revision(t.Token)) }

// String returns a description of the term.
func (t Term) String() string {
	return fmt.Sprintf("term %d of %q in election %q", t.Token, t.Candidate, t.Election)
}

// attempt is one place in the queue, from the first try to join to the deletion of the entry.
type attempt struct {
	session *session.Session
	// ctx ends with the session and its cause, or for a cause of this package.
	ctx    context.Context
	cancel context.CancelCauseFunc
	over   chan struct{}
}

// term is an attempt that leads or has led.
type term struct {
	Term
	attempt *attempt
}

// holds reports whether the term can be relied on, by this machine's clock. The context
// alone is not enough: timers stand still with the machine.
func (t *term) holds() bool {
	return t.attempt.ctx.Err() == nil && t.attempt.session.Context().Err() == nil && t.attempt.session.Remaining() > 0
}

// Lead runs a function whenever this candidate leads, until ctx ends or the election is
// stopped (ErrStopped), and returns the reason. The election must have been started.
// The function's context ends when the term does, with the cause ErrResigned,
// ErrDeposed, ErrLost or ErrStopped. The function must then return, and has the
// session's grace to do so, in which Term.Holds may still hold. It is never run twice
// at once, and the entry is kept until it has returned.
//
// Nothing leads while nobody works: Lead stops the election before it returns, like Stop,
// whatever the reason, a panic of the function included. To stand again, call Start and
// Lead again. If the function returns while it leads, Lead returns its error. An error of
// the function's own after its term had ended also ends Lead; ErrNotLeader, for a write
// that was refused, does not count as its own.
func (e *Election) Lead(ctx context.Context, run func(ctx context.Context, term Term) error) error {
	select {
	case e.leads <- struct{}{}:
	default:
		return fmt.Errorf("lead in election %q: another call of Lead has not returned: %w", e.name, ErrTwice)
	}
	defer func() { <-e.leads }()
	e.mu.Lock()
	cd := e.current
	e.mu.Unlock()
	defer e.leave(ctx, cd)
	if run == nil {
		return &invalid.Input{Field: "run", Limit: "is required"}
	}
	for {
		t, err := e.enter(ctx, cd)
		if err != nil {
			return err
		}
		err = e.runIn(ctx, t, run)
		cause := context.Cause(t.attempt.ctx)
		switch {
		case ctx.Err() != nil:
			e.cancelAttempt(t.attempt, ErrResigned)
			return context.Cause(ctx)
		case cause == nil:
			e.cancelAttempt(t.attempt, ErrResigned)
			return err
		case err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, cause) && !errors.Is(err, ErrNotLeader):
			return err
		}
	}
}

// leave stops a candidacy whose Lead returns, and waits until others can lead, unless ctx ends.
func (e *Election) leave(ctx context.Context, cd *candidacy) {
	e.mu.Lock()
	running := cd != nil && e.current == cd && e.isRunning()
	if running {
		e.stopCurrent()
	}
	e.mu.Unlock()
	if !running {
		return
	}
	select {
	case <-cd.left:
	case <-ctx.Done():
	}
}

// enter waits for a term of a candidacy and records that a function runs in it.
func (e *Election) enter(ctx context.Context, cd *candidacy) (*term, error) {
	for {
		e.mu.Lock()
		t, isRunning, changed := e.term, e.isRunning() && e.current == cd, e.changed
		var retry <-chan time.Time
		switch {
		case ctx.Err() != nil, !isRunning, t == nil, t.attempt.ctx.Err() != nil:
		case t.holds() && t.attempt.session.MayStart():
			e.running = t
			e.broadcast()
			e.mu.Unlock()
			return t, nil
		default: // too late in the session, until a renewal succeeds
			retry = time.After(t.attempt.session.Timing().Renew / 10)
		}
		e.mu.Unlock()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !isRunning:
			return nil, ErrStopped
		}
		select {
		case <-changed:
		case <-retry:
		case <-ctx.Done():
		}
	}
}

func (e *Election) runIn(caller context.Context, t *term, run func(context.Context, Term) error) error {
	ctx, cancel := context.WithCancelCause(caller)
	defer cancel(nil)
	defer context.AfterFunc(t.attempt.ctx, func() { cancel(context.Cause(t.attempt.ctx)) })()
	returned := false
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if !returned { // a panic or runtime.Goexit
			t.attempt.cancel(ErrResigned)
		}
		e.running, e.idleSince = nil, time.Now()
		e.broadcast()
	}()
	err := run(ctx, t.Term)
	returned = true
	return err
}

// Commit commits a transaction on the condition that the term still holds, and returns
// ErrNotLeader if it does not. The caller passes the term, so that a function left over
// from an old term cannot write in the name of a new one. If a transaction of the
// present term is refused, the term ends at once. The condition and a read each use one
// of broker.TxnOpsMax.
func (e *Election) Commit(ctx context.Context, t Term, txn broker.Txn) (broker.Result, error) {
	txn.If = append(append([]broker.Cond(nil), txn.If...), t.Holds())
	txn.Else = append(append([]broker.Op(nil), txn.Else...), broker.Read(t.entry))
	r, err := broker.CommitOne(ctx, e.member.config.Broker, txn)
	if err != nil || r.OK {
		return r, err
	}
	last := len(r.Reads) - 1
	kv := r.Reads[last]
	r.Reads = r.Reads[:last]
	if !isEntry(kv, broker.Revision(t.Token)) {
		e.depose(t)
		return r, fmt.Errorf("%v: %w", t, ErrNotLeader)
	}
	return r, nil
}

// depose ends a term whose entry no longer exists, without waiting for the watch.
func (e *Election) depose(t Term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term != nil && e.term.Term == t {
		e.term.attempt.cancel(ErrDeposed)
		e.broadcast()
	}
}
