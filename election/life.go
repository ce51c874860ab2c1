package election

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/windlass-go/windlass/internal/layout"
	"github.com/windlass-go/windlass/session"
)

// life is one session of a member, with the goroutine that keeps it.
type life struct {
	session *session.Session
	// stop ends the keeping, kept is closed when it has ended. Both are nil for a
	// session that somebody else keeps.
	stop context.CancelFunc
	kept chan struct{}
}

func openLife(ctx context.Context, m *Member) (*life, error) {
	l := &life{kept: make(chan struct{})}
	if err := m.acceptLayout(ctx); err != nil {
		return nil, err
	}
	s, err := session.Open(ctx, m.config.Broker, session.Config{
		TTL: m.config.TTL, Folder: m.space.Sessions(), Clock: m.config.Clock,
		Renewed: m.config.Renewed,
		Hard: func() {
			if late := m.leading(l.session); len(late) > 0 && m.config.Fence != nil {
				m.config.Fence(late)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	l.session = s
	alive, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	m.work.Go(func() {
		defer close(l.kept)
		_ = s.Run(alive) // the cause is in the session's context
	})
	return l, nil
}

// settleLost ends the sessions that could not be ended when they were lost, for which
// the next in line, this member among them, would wait to expire.
func (m *Member) settleLost() {
	ctx, cancel := context.WithTimeout(context.Background(), m.timing.Try)
	defer cancel()
	_ = m.lost.Settle(ctx) // or they expire
}

// acceptLayout refuses a namespace from the future.
func (m *Member) acceptLayout(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, m.timing.Try)
	defer cancel()
	return layout.Accept(ctx, m.config.Broker, m.space)
}

// retire ends the session at the broker once nothing runs on it any more, so
// that the next in line need not wait for it to expire. When something runs past
// the hard deadline the session is left to expire.
func (l *life) retire(m *Member) {
	defer func() {
		l.stop()
		<-l.kept
	}()
	m.settle(l.session)
	if running := m.leading(l.session); len(running) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.session.Timing().Try)
	defer cancel()
	if m.lost.Close(ctx, l.session) == nil {
		return
	}
	// It is when the broker is back; which it may be by now, or else it expires.
	m.mu.Lock()
	back := m.life != nil && m.life != l
	m.mu.Unlock()
	if back {
		m.settleLost()
	}
}

// backoff spaces attempts that fail: at random, and longer each time, up to the
// time between two renewals. The zero value is ready.
type backoff struct{ failures int }

// backoffMin is about what the first pause takes.
const backoffMin = 100 * time.Millisecond

func (b *backoff) reset() { b.failures = 0 }

// pause waits, and tells whether it came to its end before ctx did.
func (b *backoff) pause(ctx context.Context, timing session.Timing) bool {
	most := min(backoffMin<<min(b.failures, 10), timing.Renew)
	b.failures++
	select {
	case <-time.After(most/2 + rand.N(most)):
		return true
	case <-ctx.Done():
		return false
	}
}
