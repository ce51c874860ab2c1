package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// checkEvery is the longest time between two checks of the deadline. Timers stand still
// while the machine is suspended, and ignore changes of the time of day. After either,
// the deadline may be noticed this much too late, which is within the slack.
const checkEvery = time.Second

// Run keeps the session alive until it ends for any reason, and returns the cause:
// ErrClosed after Close, otherwise why it was lost. After the session's context ended,
// Run continues until the hard deadline, or until ctx is done, which means that nobody
// needs the deadline any more.
func (s *Session) Run(ctx context.Context) error {
	var both sync.WaitGroup
	both.Go(func() { s.renewUntilEnd(ctx) })
	both.Go(func() { s.enforceDeadlines(ctx) })
	both.Wait()
	return context.Cause(s.ctx)
}

// renewUntilEnd sends a renewal every Timing.Renew, and more often after one failed,
// until the session has ended or ctx is done.
func (s *Session) renewUntilEnd(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	for {
		if !pause.For(ctx, s.untilNextRenewal()) {
			return
		}
		if err := s.renewOnce(ctx); errors.Is(err, broker.ErrSessionExpired) {
			// Others may hold our keys already, so the handlers get only the time
			// that stopping takes.
			s.end(errors.Join(ErrExpired, err), s.timing.Slack)
			return
		}
	}
}

// untilNextRenewal returns the pause before the next renewal: Timing.Renew after the
// last good one, and a fraction of that after a failure.
func (s *Session) untilNextRenewal() time.Duration {
	now := s.now.Read()
	s.mu.Lock()
	due := s.timing.Renew - now.Since(s.sent)
	s.mu.Unlock()
	return max(due, s.timing.Renew/15)
}

func (s *Session) renewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timing.Try)
	defer cancel()
	sent := s.now.Read()
	s.slow.sent(sent)
	ttl, err := s.broker.KeepAlive(ctx, s.id)
	if err != nil {
		return err
	}
	s.slow.answered(s.now.Read(), s.timing.Try/4)
	s.renewed(sent, ttl)
	return nil
}

// enforceDeadlines ends the context when the stop deadline passes, and reports when the
// hard deadline passes. It does no I/O.
func (s *Session) enforceDeadlines(ctx context.Context) {
	for {
		hard := s.untilHard(s.now.Read())
		stop := hard - s.timing.Grace
		if stop <= 0 {
			s.end(ErrDeadline, s.timing.Grace)
		}
		if s.ctx.Err() != nil && hard <= 0 {
			if errors.Is(context.Cause(s.ctx), ErrClosed) {
				return
			}
			if s.config.Hard != nil {
				s.config.Hard()
			}
			close(s.hardPassed)
			return
		}
		next := stop
		if s.ctx.Err() != nil {
			next = hard
		}
		select {
		case <-ctx.Done():
			return
		case <-s.rearm:
		case <-time.After(min(next, checkEvery, s.timing.Slack/2)):
		}
	}
}
