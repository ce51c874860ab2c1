package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/clock"
)

// The reasons why a session ends; match the cause of its context with errors.Is.
var (
	// ErrLost covers every reason except ErrClosed.
	ErrLost = errors.New("the session was lost")
	// ErrExpired: the broker reported that the session is gone. It is an ErrLost.
	ErrExpired = fmt.Errorf("%w: the broker ended it", ErrLost)
	// ErrDeadline: no renewal succeeded in time, so the session can no longer be
	// trusted, whatever its state in the broker. It is an ErrLost.
	ErrDeadline = fmt.Errorf("%w: it could not be renewed in time", ErrLost)
	// ErrClosed: its owner closed it.
	ErrClosed = errors.New("the session was closed")
)

// Config configures a session. The zero value works.
type Config struct {
	// TTL is the requested TTL. Zero means TTLDefault; the range is TTLMin to TTLMax.
	TTL time.Duration
	// Folder is the prefix, ending in a slash, below which the broker may keep its own
	// data; see broker.Broker.Grant.
	Folder string
	// Clock reads the clocks that deadlines are kept by. boot never goes back and runs
	// through a suspension of the machine; day is the time of day. The larger of the
	// two elapsed times counts. Nil means the machine's clocks.
	Clock func() (boot, day time.Duration)
	// Renewed, if set, is called after every successful renewal, and once at the start,
	// with the readings of boot at which the session now stops, unless the time of day
	// is set forward meanwhile. It must not block.
	Renewed func(stop, hard time.Duration)
	// Hard, if set, is called once if the hard deadline passes. It must not wait for
	// anything that needs the broker.
	Hard func()
}

// Session is one session of a broker, and the incarnation of its owner. Its
// methods are safe for concurrent use.
type Session struct {
	broker      broker.Broker
	id          broker.SessionID
	incarnation string
	timing      Timing
	now         clock.Clock
	config      Config
	slow        slowRenewals

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu sync.Mutex // never held during I/O or a callback
	// sent is when the last successful renewal was sent.
	sent clock.Reading
	// hard is how long after that the hard deadline passes. Invariant: hard <=
	// timing.Hard.
	hard time.Duration
	// ended is true once ctx is cancelled; sent and hard are then final.
	ended bool
	// rearm wakes the deadline goroutine when hard was brought forward.
	rearm chan struct{}
	// hardPassed is closed when the hard deadline has passed and was reported.
	hardPassed chan struct{}
}

// Open requests a session from the broker. The caller must then call Run to keep it
// alive. Open fails if the broker is so far away that renewals would come too late.
// Such a session would be lost and opened again every few seconds, and its tasks would
// move each time. The end of parent does not end the session's context before the
// session is closed: its owner stops the handlers, in order.
func Open(parent context.Context, b broker.Broker, config Config) (*Session, error) {
	if err := CheckTTL(config.TTL); err != nil {
		return nil, err
	}
	config.TTL = cmp.Or(config.TTL, TTLDefault)
	s := &Session{broker: b, now: config.Clock, config: config, rearm: make(chan struct{}, 1), hardPassed: make(chan struct{})}
	if s.now == nil {
		s.now = clock.Machine
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	s.incarnation = id.String()
	s.sent = s.now.Read()
	ctx, cancel := context.WithTimeout(parent, Derive(config.TTL).Stop)
	defer cancel()
	granted, err := b.Grant(ctx, config.Folder, config.TTL)
	if err != nil {
		return nil, err
	}
	s.id, s.timing = granted.ID, Derive(granted.TTL)
	s.hard = s.timing.Hard
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(parent))
	if took := s.now.Read().Since(s.sent); took > s.timing.Try {
		if err := s.renewOnce(ctx); err != nil {
			_ = s.Close(context.WithoutCancel(ctx)) // or it expires
			return nil, fmt.Errorf("opening a session took %v, and a renewal, which may take %v with a TTL of %v, has failed: %w",
				took.Round(time.Millisecond), s.timing.Try, s.timing.TTL, err)
		}
	}
	s.notifyRenewed()
	return s, nil
}

// ID returns the broker's ID of the session.
func (s *Session) ID() broker.SessionID { return s.id }

// Incarnation returns a name for this session's owner during the session's life. It
// rises with time and is never used again (a UUIDv7).
func (s *Session) Incarnation() string { return s.incarnation }

// Timing returns the times derived from the granted TTL.
func (s *Session) Timing() Timing { return s.timing }

// Context returns a context that ends when the session can no longer be trusted; its
// cause says why. Every handler's context descends from it.
func (s *Session) Context() context.Context { return s.ctx }

// Remaining returns the time left until the stop deadline, at which handlers are told
// to stop; negative once it passed. Every renewal moves it.
func (s *Session) Remaining() time.Duration {
	return s.untilHard(s.now.Read()) - s.timing.Grace
}

// untilHard returns the time left until the hard deadline, by which handlers must have
// returned; negative once it passed.
func (s *Session) untilHard(now clock.Reading) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hard - now.Since(s.sent)
}

// HardPassed returns a channel that is closed when the session was lost and its hard
// deadline has passed, after Config.Hard has returned.
func (s *Session) HardPassed() <-chan struct{} { return s.hardPassed }

// MayStart reports whether enough of the session is left to start something on it.
// Nothing starts late in a session's life.
func (s *Session) MayStart() bool {
	return s.ctx.Err() == nil && s.Remaining() > s.timing.Claim
}

// End ends the session's context at once, for a cause that its owner found out, for
// example that a key of the session is gone. The first cause counts.
func (s *Session) End(cause error) { s.end(cause, s.timing.Grace) }

// end cancels the context, and brings the hard deadline forward to at most grace from
// now.
func (s *Session) end(cause error, grace time.Duration) {
	now := s.now.Read()
	s.mu.Lock()
	first := !s.ended
	if first {
		s.ended = true
		s.hard = min(s.hard, now.Since(s.sent)+grace)
	}
	s.mu.Unlock()
	if !first {
		return
	}
	s.cancel(cause)
	select {
	case s.rearm <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// Close ends the session here and in the broker, so that its keys vanish at once. Call
// it only when nothing that relied on the session is running any more; otherwise let
// the session expire. It is idempotent.
func (s *Session) Close(ctx context.Context) error {
	s.end(ErrClosed, 0)
	return s.broker.Revoke(ctx, s.id)
}

// renewed records a successful renewal that was sent at the given reading.
func (s *Session) renewed(sent clock.Reading, ttl time.Duration) {
	s.mu.Lock()
	if !s.ended && sent.Boot > s.sent.Boot {
		s.sent = sent
		// A store that granted less than before shortens this very deadline.
		s.hard = min(s.timing.Hard, Derive(ttl).Hard)
	}
	s.mu.Unlock()
	s.notifyRenewed()
}

func (s *Session) notifyRenewed() {
	if s.config.Renewed == nil || s.ctx.Err() != nil {
		return
	}
	now := s.now.Read()
	hard := now.Boot + s.untilHard(now)
	s.config.Renewed(hard-s.timing.Grace, hard)
}
