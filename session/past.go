package session

import (
	"context"
	"sync"

	"github.com/windlass-go/windlass/broker"
)

// Past has the unused sessions of one owner that could not be ended because the broker
// was unreachable. Once the broker is back it may give them their whole TTL again, for
// which others would have to wait. The zero value has none. Its methods are safe for
// concurrent use.
type Past struct {
	mu       sync.Mutex // never held during I/O
	sessions []*Session
}

// Close closes a session, which takes at most one Try, and remembers it if the broker
// is unreachable.
func (p *Past) Close(ctx context.Context, s *Session) error {
	ctx, cancel := context.WithTimeout(ctx, s.timing.Try)
	defer cancel()
	err := s.Close(ctx)
	if broker.Temporary(err) {
		p.mu.Lock()
		p.sessions = append(p.sessions, s)
		p.mu.Unlock()
	}
	return err
}

// Settle tries again to end the remembered sessions, which takes at most one Try for
// each. It keeps those for which that fails again.
func (p *Past) Settle(ctx context.Context) error {
	p.mu.Lock()
	sessions := p.sessions
	p.sessions = nil
	p.mu.Unlock()
	for i, s := range sessions {
		if err := p.Close(ctx, s); err != nil {
			p.mu.Lock()
			p.sessions = append(p.sessions, sessions[i+1:]...) // the broker is unreachable again
			p.mu.Unlock()
			return err
		}
	}
	return nil
}
