package election

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/session"
)

// joins records the attempts to join with one session.
type joins struct {
	session broker.SessionID
	// own is the creation revision of the existing entry, zero if there certainly is none.
	own broker.Revision
	// unknown counts attempts that may still create an entry.
	unknown int
}

// found records an existing entry. One attempt has created it, unless it is known.
func (j *joins) found(created broker.Revision) {
	if created != j.own {
		j.own, j.unknown = created, max(0, j.unknown-1)
	}
}

// sessionRun is a candidacy on one session. It belongs to the candidacy's goroutine.
type sessionRun struct {
	*Election
	candidacy *candidacy
	session   *session.Session
	timing    session.Timing
	broker    broker.Broker
	// backoff is between failed calls, watching between failed watches, which may fail
	// while calls succeed.
	backoff, watching pause.Backoff
}

// run takes part until it is stopped, on one session after the other. A candidacy that is
// stopped before it begins still cleans up what the one before has left.
func (e *Election) run(cd *candidacy) {
	e.mu.Lock()
	e.told = ""
	e.mu.Unlock()
	for {
		s := e.member.await(cd.ctx, e.events.Error)
		if s == nil {
			return
		}
		wait := pause.Backoff{Min: backoffMin, Max: s.Timing().Renew}
		c := sessionRun{Election: e, candidacy: cd, session: s, timing: s.Timing(), broker: e.member.config.Broker, backoff: wait, watching: wait}
		if id := s.ID(); e.joins.session != id {
			e.joins = joins{session: id}
		}
		for c.alive() && cd.ctx.Err() == nil {
			c.take()
		}
		if cd.ctx.Err() != nil {
			c.clear()
			return
		}
		e.events.Error(context.Cause(s.Context()))
	}
}

// alive reports whether the session can be relied on.
func (c *sessionRun) alive() bool { return c.session.Context().Err() == nil }

// take makes one attempt: it joins the end of the queue, and leaves it.
func (c *sessionRun) take() {
	if !c.awaitReturn() {
		return
	}
	t := c.beginAttempt()
	if t == nil {
		return
	}
	cause := c.join(t.ctx)
	if cause == nil {
		cause = c.follow(t)
	}
	c.endAttempt(t, cause)
	// The entry keeps others from leading while the function still runs.
	if c.awaitReturn() && c.alive() && c.candidacy.ctx.Err() == nil {
		c.remove(c.candidacy.ctx)
	}
	c.mu.Lock()
	c.attempt = nil
	c.broadcast()
	c.mu.Unlock()
	close(t.over)
}

func (c *sessionRun) beginAttempt() *attempt {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isRunning() || c.current != c.candidacy {
		return nil
	}
	t := &attempt{session: c.session, over: make(chan struct{})}
	t.ctx, t.cancel = context.WithCancelCause(c.session.Context())
	c.attempt = t
	return t
}

// endAttempt ends the term, if there was one, before anything else happens.
func (c *sessionRun) endAttempt(t *attempt, cause error) {
	c.mu.Lock()
	t.cancel(cause)
	cause = context.Cause(t.ctx)
	term := c.term
	c.term = nil
	c.broadcast()
	c.mu.Unlock()
	c.learn("")
	if term == nil {
		return
	}
	c.events.Unelected(term.Term, cause)
	c.mu.Lock()
	c.told = "" // the next leader is an event, even if it is the same
	c.idleSince = time.Now()
	c.mu.Unlock()
}

// awaitReturn waits until no function runs, and reports whether that is so. It gives up
// only if the election is stopped and the hard deadline of the function's session, which
// may be an earlier one, has passed, or if the member is closed.
func (c *sessionRun) awaitReturn() bool {
	stopped := c.candidacy.ctx.Done()
	for {
		c.mu.Lock()
		running, changed := c.running, c.changed
		c.mu.Unlock()
		if running == nil {
			return true
		}
		var hardPassed <-chan struct{}
		if stopped == nil {
			hardPassed = running.attempt.session.HardPassed()
		}
		select {
		case <-changed:
		case <-stopped:
			stopped = nil
		case <-hardPassed:
			return false
		case <-c.member.closed:
			return false
		}
	}
}

// retry makes a call until it succeeds or ctx ends, and returns why it ended.
func (c *sessionRun) retry(ctx context.Context, do func(context.Context) error) error {
	for ctx.Err() == nil {
		err := c.try(ctx, do)
		if err == nil {
			return nil
		}
		c.failed(ctx, err, &c.backoff)
	}
	return context.Cause(ctx)
}

func (c *sessionRun) try(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timing.Try)
	defer cancel()
	err := do(ctx)
	if err == nil {
		c.backoff.Reset()
	}
	return err
}

// failed ends the session if the error says that it is gone. It reports every other error
// and pauses before the next attempt.
func (c *sessionRun) failed(ctx context.Context, err error, wait *pause.Backoff) {
	if errors.Is(err, broker.ErrSessionExpired) {
		c.session.End(errors.Join(session.ErrExpired, err))
		return
	}
	if ctx.Err() == nil {
		c.events.Error(err)
		wait.Pause(ctx)
	}
}

// join creates the entry. It returns nil once there is one, and otherwise why the attempt
// ended. It deletes an entry of an earlier attempt, whose place was given up and whose token
// may be that of an earlier term.
func (c *sessionRun) join(ctx context.Context) error {
	var holder broker.Revision
	tried := false // a try of this attempt may have created an entry
	txn := broker.Txn{
		If:   []broker.Cond{broker.Absent(c.entry)},
		Then: []broker.Op{broker.PutSession(c.entry, []byte(c.member.config.Candidate), c.session.ID())},
		Else: []broker.Op{broker.Read(c.entry)},
	}
	for ctx.Err() == nil {
		var r broker.Result
		// Not with ctx: after a stop the outcome must still be known.
		err := c.try(c.session.Context(), func(ctx context.Context) (err error) {
			r, err = broker.CommitOne(ctx, c.broker, txn)
			return err
		})
		switch {
		case err != nil:
			if broker.MaybeApplied(err) {
				c.joins.unknown++
				tried = true
			}
			c.failed(ctx, fmt.Errorf("join: %w", err), &c.backoff)
		case r.OK:
			c.joins.own = r.Revision
			return nil
		case r.Reads[0].Session == c.session.ID():
			left := !tried || r.Reads[0].Created == c.joins.own
			c.joins.found(r.Reads[0].Created)
			if !left {
				return nil
			}
			c.remove(ctx)
		default:
			kv := r.Reads[0]
			if kv.Created != holder && !c.member.wasOurs(kv.Session) {
				c.events.Error(fmt.Errorf("%w: candidate %q, session %x; waiting until it is gone", ErrNameTaken, c.member.config.Candidate, kv.Session))
			}
			holder = kv.Created
			_, err := c.watchKey(ctx, kv.Key, r.Revision+1, func(event broker.Event) bool { return isOver(*kv, event) })
			if err != nil {
				c.failed(ctx, err, &c.watching)
			}
		}
	}
	return context.Cause(ctx)
}

// lookEvery is about how often a candidate checks its place without an event, in case a
// watch has fallen silent.
const lookEvery = 2 * time.Minute

// watchKey watches one key until an event for which is returns true, and returns that; or
// until it is time to check, the watch fails or ctx ends.
func (c *sessionRun) watchKey(ctx context.Context, key string, from broker.Revision, is func(broker.Event) bool) (*broker.Event, error) {
	event, err := watchKey(ctx, c.broker, key, from, is)
	if err == nil || ctx.Err() != nil {
		c.watching.Reset()
	}
	return event, err
}

func watchKey(ctx context.Context, b broker.Broker, key string, from broker.Revision, is func(broker.Event) bool) (*broker.Event, error) {
	// Not a deadline: the broker would know it, and could return it as an error before it
	// has passed here.
	watched, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(lookEvery/2+rand.N(lookEvery), cancel).Stop()
	for batch, err := range b.Watch(watched, key, from) {
		if err != nil && watched.Err() == nil {
			return nil, err
		}
		for _, event := range batch.Events {
			if event.KV.Key == key && is(event) {
				return &event, nil
			}
		}
	}
	return nil, ctx.Err()
}

// remove deletes the entry, and retries until the entry is certainly gone or ctx ends.
func (c *sessionRun) remove(ctx context.Context) {
	if c.joins.own == 0 {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.session.Context(), cancel)()
	err := c.retry(ctx, func(ctx context.Context) error {
		_, err := broker.CommitOne(ctx, c.broker, broker.Txn{
			If:   []broker.Cond{broker.Created(c.entry, c.joins.own)},
			Then: []broker.Op{broker.Delete(c.entry)},
		})
		return err
	})
	if err == nil {
		c.joins.own = 0
	}
}

// clear cleans up after a stop. Stop waits for it at most one Try. It continues until
// no entry can be created any more, the session ends or the election is started again.
func (c *sessionRun) clear() {
	began := c.candidacy.stopped
	if running, _ := c.runningOn(nil); running {
		return // past the hard deadline: let the entry expire
	}
	c.mu.Lock()
	if c.idleSince.After(began) {
		began = c.idleSince
	}
	c.mu.Unlock()
	impatience := time.AfterFunc(c.timing.Try-time.Since(began), c.candidacy.leave)
	defer impatience.Stop()
	ctx, cancel := context.WithCancel(c.candidacy.sweep)
	defer cancel()
	defer context.AfterFunc(c.session.Context(), cancel)()
	c.remove(ctx)
	for c.joins.unknown > 0 && ctx.Err() == nil {
		own, rev, err := c.read(ctx, c.entry)
		if err != nil {
			return
		}
		if own != nil && own.Session == c.session.ID() {
			c.joins.found(own.Created)
			c.remove(ctx)
			continue
		}
		c.candidacy.leave()
		_, err = c.watchKey(ctx, c.entry, rev+1, func(event broker.Event) bool {
			return !event.Deleted && event.KV.Session == c.session.ID()
		})
		if err != nil {
			c.failed(ctx, err, &c.watching)
		}
	}
}

// read reads a key, with retries until ctx ends; nil if it does not exist.
func (c *sessionRun) read(ctx context.Context, key string) (kv *broker.KV, rev broker.Revision, err error) {
	err = c.retry(ctx, func(ctx context.Context) error {
		r, err := broker.CommitOne(ctx, c.broker, broker.Txn{Then: []broker.Op{broker.Read(key)}})
		if err == nil {
			kv, rev = r.Reads[0], r.Revision
		}
		return err
	})
	return kv, rev, err
}
