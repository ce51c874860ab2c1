package zookeeper

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

const (
	// sessionPings is how many pings go into a session's timeout.
	sessionPings = 10
	// pingsLast is the part of a timeout for which pings go on after a renewal. It is
	// more than the time between two renewals, so that pings bound how old the leader's
	// last word of the session is, and little, so that a session that nobody renews
	// ends soon.
	pingsLast = 4
	// touchesKept is for how many ticks touches are kept.
	touchesKept = 2
	// sessionTTLMax bounds the TTL asked for. Servers give much less.
	sessionTTLMax = 24 * time.Hour
)

// session is a session of Grant, or one granted elsewhere that this broker has taken
// over. It has a connection of its own, because ZooKeeper lets only a session's own
// connection create its znodes, and because only what goes along it renews it.
type session struct {
	broker *Broker
	id     broker.SessionID

	// mu is held while it is connected.
	mu       sync.Mutex
	conn     *wire.Conn
	password []byte

	// timing guards what follows.
	timing sync.Mutex
	// timeout is the one asked for, and then the one granted. It is written under
	// both locks.
	timeout time.Duration
	// pingUntil is when pings are to stop, so that a session that nobody renews
	// ends.
	pingUntil time.Duration
	// connected is when the last connection began, of which the leader knew at once.
	connected time.Duration
	// written is the transaction that wrote its znode last, of those from here.
	written int64
	// touches are the requests, pings included, that a server answered.
	// Invariant: they rise, and all but the first are younger than touchesKept ticks.
	touches []touch
}

// touch is when a request was sent, and when its answer came.
type touch struct{ sent, answered time.Duration }

// tick is the servers' tickTime as far as it is known here, or more. One that is longer
// than was configured shows where a server grants no timeout as short as was asked for: the
// least that it grants is two ticks, unless it is told otherwise.
func (b *Broker) tick() time.Duration {
	return max(b.config.TickTime, time.Duration(b.leastTimeout.Load())/2)
}

// ttl is what a session's timeout is worth as a rule, counted from when a write of it
// was sent; see session.ttl.
func (b *Broker) ttl(timeout time.Duration) time.Duration {
	return timeout - b.tick()/2 - timeout/sessionPings
}

// ttl is what the session's timeout is worth, counted from when a write was sent, once
// that has succeeded. The write proves that the session was alive at the leader and has
// not moved. But what extends it is only that its server heard of it and told the leader
// so, which servers do every half tick; one that dies before that takes the news with it.
// So the timeout counts from the last that the leader must have been told: what was
// answered half a tick before, because a server may hear late of what was sent early.
func (s *session) ttl(sent time.Duration) time.Duration {
	s.timing.Lock()
	defer s.timing.Unlock()
	told := min(s.connected, sent) // a connection begun since proves nothing of this one
	for _, touch := range s.touches {
		if touch.answered <= sent-s.broker.tick()/2 {
			told = max(told, touch.sent)
		}
	}
	return s.timeout - (sent - told)
}

// touched notes that a server has heard of the session.
func (s *session) touched(sent, answered time.Duration) {
	s.timing.Lock()
	defer s.timing.Unlock()
	s.touches = append(s.touches, touch{sent, answered})
	for len(s.touches) > 1 && s.touches[1].answered <= s.broker.now()-touchesKept*s.broker.tick() {
		s.touches = s.touches[1:]
	}
}

// timeoutFor is the inverse of ttl, in whole milliseconds.
func (b *Broker) timeoutFor(ttl time.Duration) time.Duration {
	timeout := (ttl + b.tick()/2) * sessionPings / (sessionPings - 1)
	return (timeout + 2*time.Millisecond).Truncate(time.Millisecond)
}

// Grant implements broker.Broker.
func (b *Broker) Grant(ctx context.Context, _ string, ttl time.Duration) (broker.Session, error) {
	if ttl <= 0 || ttl > sessionTTLMax {
		return broker.Session{}, broker.NewError("grant", "", broker.ErrInvalid,
			fmt.Errorf("a TTL of %v; it is above zero and at most %v", ttl, sessionTTLMax))
	}
	ctx, leave, err := b.enter(ctx, "grant", "")
	if err != nil {
		return broker.Session{}, err
	}
	defer leave()
	bounded, cancel := context.WithTimeout(ctx, b.config.RequestTimeout)
	defer cancel()
	s := &session{broker: b, timeout: b.timeoutFor(ttl)}
	if err := s.grant(bounded); err != nil {
		s.disconnect()
		return broker.Session{}, b.readOnly(ctx, "grant", "", err) // what was granted expires
	}
	if b.ttl(s.timeout) <= 0 {
		s.disconnect()
		return broker.Session{}, broker.NewError("grant", "", broker.ErrInvalid,
			fmt.Errorf("the servers grant %v, of which nothing is left with a tick time of %v (Config.TickTime)", s.timeout, b.tick()))
	}
	b.mu.Lock()
	b.sessions[s.id] = s
	b.mu.Unlock()
	return broker.Session{ID: s.id, TTL: b.ttl(s.timeout)}, nil
}

// grant connects with a new session and creates the znode by which it is renewed. Its
// data is what another broker needs to take the session over.
func (s *session) grant(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.connect(ctx); err != nil {
		return err
	}
	s.id, s.password = broker.SessionID(s.conn.Session()), s.conn.Password()
	reply, err := s.conn.Do(ctx, wire.Single(wire.Create(s.broker.layout.session(s.id), s.data(), wire.Ephemeral, s.broker.config.sessionACLs())))
	s.written = reply.Zxid // nobody else knows it yet
	return err
}

// data is what the session's znode holds: the timeout in milliseconds, which whoever
// resumes a session has to ask for again, and the password.
func (s *session) data() []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(s.timeout.Milliseconds())), s.password...)
}

// connect starts or resumes the session on a new connection. The caller holds mu.
func (s *session) connect(ctx context.Context) error {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
	var began time.Duration
	conn, err := s.broker.dial(ctx, func(c *wire.Config) {
		c.Timeout, c.Session, c.Password = s.timeout, int64(s.id), s.password
		c.Pings, c.Pinging, c.Answered = sessionPings, s.isRenewed, s.touched
		c.Replied = s.broker.saw
		began = s.broker.now() // of the attempt that succeeds, the last
	})
	if err != nil {
		return s.resumeError(err)
	}
	if err = s.verify(ctx, conn); err != nil {
		conn.Close()
		return err
	}
	s.conn = conn
	s.timing.Lock()
	s.timeout = conn.Timeout()
	s.connected, s.touches = began, nil
	s.timing.Unlock()
	return nil
}

// renewed records when a renewal was sent and the transaction that wrote it. Before the
// first renewal, as for a claim that nobody renews, there are no pings: the leader last
// heard of the session when the connection began.
func (s *session) renewed(at time.Duration, written int64) {
	s.timing.Lock()
	defer s.timing.Unlock()
	s.pingUntil = max(s.pingUntil, at+s.timeout/pingsLast)
	s.written = max(s.written, written)
}

// isRenewed tells whether to ping.
func (s *session) isRenewed() bool {
	s.timing.Lock()
	defer s.timing.Unlock()
	return s.broker.now() < s.pingUntil
}

// disconnect ends the connection, not the session.
func (s *session) disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
	}
}

// attached returns a session whose connection is there. One that is not known here was
// granted elsewhere; its znode has what it takes to resume it.
func (b *Broker) attached(ctx context.Context, id broker.SessionID) (*session, *wire.Conn, error) {
	b.mu.Lock()
	s := b.sessions[id]
	b.mu.Unlock()
	if s == nil {
		var err error
		if s, err = b.elsewhere(ctx, id); err != nil {
			return nil, nil, err
		}
		b.mu.Lock()
		if known := b.sessions[id]; known != nil {
			s = known
		} else if b.sessions != nil {
			b.sessions[id] = s
		}
		b.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil || s.conn.Err() != nil {
		if err := s.connect(ctx); err != nil {
			b.remove(s, err)
			return nil, nil, err
		}
	}
	return s, s.conn, nil
}

// attach returns the connection of a session, for a transaction.
func (b *Broker) attach(ctx context.Context, id broker.SessionID) (*wire.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, b.config.RequestTimeout)
	defer cancel()
	_, conn, err := b.attached(ctx, id)
	return conn, err
}

// elsewhere reads what it takes to resume a session that was granted elsewhere.
func (b *Broker) elsewhere(ctx context.Context, id broker.SessionID) (*session, error) {
	var z znode
	err := b.attempt(ctx, func(ctx context.Context, l *link) error {
		results, _, err := b.readNow(ctx, l, wire.GetData(b.layout.session(id)))
		if err != nil {
			return err
		}
		z, err = toZnode(results[0])
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !z.there || z.stat.EphemeralOwner != int64(id) || len(z.data) < 8:
		return nil, wire.ErrExpired
	}
	timeout := time.Duration(binary.BigEndian.Uint64(z.data)) * time.Millisecond
	return &session{broker: b, id: id, password: z.data[8:], timeout: min(timeout, b.timeoutFor(sessionTTLMax))}, nil
}

// KeepAlive implements broker.Broker. A renewal is a write: the answer to a ping only
// shows that one server is there, which may be cut off from the others.
func (b *Broker) KeepAlive(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	ctx, leave, err := b.enter(ctx, "keepalive", "")
	if err != nil {
		return 0, err
	}
	defer leave()
	ttl, err := b.renew(ctx, id)
	if err != nil {
		return 0, b.failure(ctx, "keepalive", "", err)
	}
	return ttl, nil
}

func (b *Broker) renew(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, b.config.RequestTimeout)
	defer cancel()
	for {
		s, conn, err := b.attached(ctx, id)
		if err != nil {
			return 0, err
		}
		s.mu.Lock()
		data := s.data()
		s.mu.Unlock()
		sent := b.now()
		reply, err := conn.Do(ctx, wire.Single(wire.SetData(b.layout.session(id), data, wire.AnyVersion)))
		switch {
		case err == nil:
			ttl := s.ttl(sent) // before this renewal counts itself
			s.renewed(sent, reply.Zxid)
			return ttl, nil
		case ignore(err, wire.CodeNoNode) == nil:
			// Somebody deleted its znode to end it. What is over has no keys.
			_, _ = conn.Do(ctx, wire.CloseSession())
			err = wire.ErrExpired
		case ctx.Err() != nil:
			// The next attempt had better try another server.
			conn.Close()
		case conn.Err() != nil:
			continue // a renewal may be repeated
		}
		b.forget(s, err)
		return 0, err
	}
}

// forget drops a session that is over, with its connection.
func (b *Broker) forget(s *session, err error) {
	if b.remove(s, err) {
		s.disconnect()
	}
}

// remove takes a session out of the list if the error says that it is over.
func (b *Broker) remove(s *session, err error) bool {
	if classify(err) != broker.ErrSessionExpired {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sessions, s.id)
	return true
}

// Revoke implements broker.Broker.
func (b *Broker) Revoke(ctx context.Context, id broker.SessionID) error {
	ctx, leave, err := b.enter(ctx, "revoke", "")
	if err != nil {
		return err
	}
	defer leave()
	bounded, cancel := context.WithTimeout(ctx, b.config.RequestTimeout)
	defer cancel()
	s, conn, err := b.attached(bounded, id)
	if err == nil {
		_, err = conn.Do(bounded, wire.CloseSession())
		if err == nil || classify(err) == broker.ErrSessionExpired {
			b.forget(s, wire.ErrExpired)
			return nil
		}
	}
	if classify(err) == broker.ErrSessionExpired {
		return nil
	}
	return b.failure(ctx, "revoke", "", err)
}
