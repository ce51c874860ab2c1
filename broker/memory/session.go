package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// session is a session that has not ended.
type session struct {
	id       broker.SessionID
	ttl      time.Duration
	deadline time.Time
	timer    *time.Timer // calls expire
	keys     map[string]struct{}
}

// Grant implements broker.Broker. Like other stores it uses whole seconds, rounded up.
func (b *Broker) Grant(ctx context.Context, _ string, ttl time.Duration) (broker.Session, error) {
	if ttl <= 0 {
		return broker.Session{}, broker.NewError("grant", "", broker.ErrInvalid, fmt.Errorf("TTL %v: it is positive", ttl))
	}
	if err := b.usable(ctx, "grant", ""); err != nil {
		return broker.Session{}, err
	}
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	s := b.store
	s.lastSession++
	ss := &session{id: s.lastSession, keys: map[string]struct{}{}, ttl: (ttl + time.Second - 1).Truncate(time.Second)}
	ss.deadline = time.Now().Add(ss.ttl)
	ss.timer = time.AfterFunc(ss.ttl, func() { s.expire(ss) })
	s.sessions[ss.id] = ss
	return broker.Session{ID: ss.id, TTL: ss.ttl}, nil
}

// expire is called by a session's timer, which may have been reset since it fired.
func (s *Store) expire(ss *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil || s.sessions[ss.id] != ss {
		return
	}
	if left := time.Until(ss.deadline); left > 0 {
		ss.timer.Reset(left)
		return
	}
	s.endSession(ss)
}

// endSession forgets a session and deletes its keys, all at one revision.
func (s *Store) endSession(ss *session) {
	ss.timer.Stop()
	delete(s.sessions, ss.id)
	var events []broker.Event
	for _, key := range slices.Sorted(maps.Keys(ss.keys)) {
		events = append(events, s.remove(s.keys.get(key)))
	}
	s.record(events)
}

// detach removes a key from its session, if it has one.
func (s *Store) detach(kv *broker.KV) {
	if ss := s.sessions[kv.Session]; ss != nil {
		delete(ss.keys, kv.Key)
	}
}

// KeepAlive implements broker.Broker.
func (b *Broker) KeepAlive(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	if err := b.usable(ctx, "keepalive", ""); err != nil {
		return 0, err
	}
	b.store.mu.Lock()
	defer b.store.mu.Unlock()
	ss := b.store.sessions[id]
	if ss == nil {
		return 0, broker.NewError("keepalive", "", broker.ErrSessionExpired, nil)
	}
	ss.deadline = time.Now().Add(ss.ttl)
	ss.timer.Reset(ss.ttl)
	return ss.ttl, nil
}

// Revoke implements broker.Broker.
func (b *Broker) Revoke(ctx context.Context, id broker.SessionID) error {
	if err := b.usable(ctx, "revoke", ""); err != nil {
		return err
	}
	b.store.ExpireSession(id)
	return nil
}

// ExpireSession ends a session at once, as if its TTL had passed, and reports whether
// it was alive.
func (s *Store) ExpireSession(id broker.SessionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ss := s.sessions[id]
	if ss != nil {
		s.endSession(ss)
	}
	return ss != nil
}
