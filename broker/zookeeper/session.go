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
	// sessionPings is the number of pings per session timeout.
	sessionPings = 10
	// pingsLast is the fraction of a timeout, a quarter, for which pings continue after a
	// renewal. That is longer than the time between two renewals, so that the leader's
	// information about the session is recent, and short, so that a session that nobody
	// renews ends soon.
	pingsLast = 4
	// touchesKept is the number of ticks for which touches are kept.
	touchesKept = 2
	// sessionTTLMax limits the requested TTL. Servers grant much less.
	sessionTTLMax = 24 * time.Hour
)

// session is a session of Grant, or one granted elsewhere that this broker has taken
// over. It has a connection of its own, because ZooKeeper creates its znodes only on that
// connection, and only requests on that connection renew it.
type session struct {
	broker *Broker
	id     broker.SessionID

	// mu is held while it is being connected.
	mu       sync.Mutex
	conn     *wire.Conn
	password []byte
	// granted is the TTL that others know, by which they end it. It does not change.
	granted time.Duration

	timing sync.Mutex // guards the fields below
	// timeout is first the requested and then the granted one. It is written under
	// both locks.
	timeout time.Duration
	// pingUntil is when pings stop, so that a session that nobody renews ends.
	pingUntil time.Duration
	// connected is when the last connection began. The leader knows at once that it did.
	connected time.Duration
	// written is the last transaction in which this broker wrote its znode.
	written int64
	// touches are the requests, pings included, that a server answered.
	// Invariant: they rise, and all but the first are younger than touchesKept ticks.
	touches []touch
}

// touch is when a request was sent, and when its answer arrived.
type touch struct{ sent, answered time.Duration }

// tick returns the servers' tickTime as far as it is known, or more. It is longer than
// configured if a server grants a longer timeout than requested: the least that servers
// grant by default is two ticks.
func (b *Broker) tick() time.Duration {
	return max(b.config.TickTime, time.Duration(b.leastTimeout.Load())/2)
}

// ttl converts a session's timeout to the TTL that Grant returns, which runs from the time
// when a write was sent; see session.ttl.
func (b *Broker) ttl(timeout time.Duration) time.Duration {
	return timeout - b.tick()/2 - timeout/sessionPings
}

// ttl returns how long the session lasts from the time when a successful write was sent.
// The write proves that the session was alive at the leader and has not moved. But it does
// not extend the session: only a server does that, which reports to the leader every half
// tick which sessions it heard from, and may die before. So the timeout counts from the
// last request that the leader must know of, which is one that was answered half a tick
// before the write. The time of the answer counts, because a server may receive late what
// was sent early.
func (s *session) ttl(sent time.Duration) time.Duration {
	s.timing.Lock()
	defer s.timing.Unlock()
	known := min(s.connected, sent) // a later connection proves nothing about this write
	for _, touch := range s.touches {
		if touch.answered <= sent-s.broker.tick()/2 {
			known = max(known, touch.sent)
		}
	}
	return s.timeout - (sent - known)
}

// touched records that a server answered a request.
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
	if s.granted <= 0 {
		s.disconnect()
		return broker.Session{}, broker.NewError("grant", "", broker.ErrInvalid,
			fmt.Errorf("the servers grant %v, of which nothing is left with a tick time of %v (Config.TickTime)", s.timeout, b.tick()))
	}
	b.mu.Lock()
	b.sessions[s.id] = s
	b.mu.Unlock()
	return broker.Session{ID: s.id, TTL: s.granted}, nil
}

// grant connects with a new session and creates the znode that renewals write. Its data is
// what another broker needs to take the session over.
func (s *session) grant(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.connect(ctx); err != nil {
		return err
	}
	s.id, s.password = broker.SessionID(s.conn.Session()), s.conn.Password()
	s.granted = s.broker.ttl(s.timeout).Truncate(time.Millisecond)
	reply, err := s.conn.Do(ctx, wire.Single(wire.Create(s.broker.layout.session(s.id), s.data(), wire.Ephemeral, s.broker.config.sessionACLs())))
	s.written = reply.Zxid // without timing, because nobody else knows the session yet
	return err
}

// sessionData is the data of a session's znode: the timeout, which is requested again when the
// session is resumed, the TTL that was granted, and the password.
type sessionData struct {
	timeout, ttl time.Duration
	password     []byte
}

// sessionDataVersion begins the data.
const sessionDataVersion = 1

func (d sessionData) encode() []byte {
	data := []byte{sessionDataVersion}
	for _, v := range []time.Duration{d.timeout, d.ttl} {
		data = binary.BigEndian.AppendUint64(data, uint64(v.Milliseconds()))
	}
	return append(data, d.password...)
}

func parseSessionData(data []byte) (d sessionData, ok bool) {
	if len(data) < 17 || data[0] != sessionDataVersion {
		return d, false
	}
	at := func(i int) time.Duration {
		return time.Duration(binary.BigEndian.Uint64(data[i:])) * time.Millisecond
	}
	return sessionData{timeout: at(1), ttl: at(9), password: data[17:]}, true
}

// data returns the data of the session's znode. The caller holds mu.
func (s *session) data() []byte {
	return sessionData{timeout: s.timeout, ttl: s.granted, password: s.password}.encode()
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
		began = s.broker.now() // the last attempt is the one that succeeds
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

// renewed records when a renewal was sent and the transaction that wrote it. A session that
// was never renewed, such as that of a detached claim, is not pinged.
func (s *session) renewed(at time.Duration, written int64) {
	s.timing.Lock()
	defer s.timing.Unlock()
	s.pingUntil = max(s.pingUntil, at+s.timeout/pingsLast)
	s.written = max(s.written, written)
}

// isRenewed reports whether to ping.
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

// attached returns a session and its connection. An unknown session was granted elsewhere;
// its znode has the data to resume it.
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

// elsewhere reads the data to resume a session that was granted elsewhere.
func (b *Broker) elsewhere(ctx context.Context, id broker.SessionID) (*session, error) {
	z, err := b.get(ctx, b.layout.session(id))
	switch {
	case err != nil:
		return nil, err
	case !z.there || z.stat.EphemeralOwner != int64(id):
		return nil, wire.ErrExpired
	}
	s := b.sessionOf(z)
	if s == nil {
		return nil, wire.ErrExpired
	}
	return s, nil
}

// KeepAlive implements broker.Broker. A renewal is a write: the answer to a ping only
// proves that one server is alive, which may be cut off from the others.
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
			ttl := min(s.ttl(sent), s.granted) // by which others end it
			s.renewed(sent, reply.Zxid)
			return ttl, nil
		case ignore(err, wire.CodeNoNode) == nil:
			// Somebody deleted its znode to end it. An expired session must have no keys.
			_, _ = conn.Do(ctx, wire.CloseSession())
			err = wire.ErrExpired
		case ctx.Err() != nil:
			// The next attempt should try another server.
			conn.Close()
		case conn.Err() != nil:
			continue // a renewal may be repeated
		}
		b.forget(s, err)
		return 0, err
	}
}

// forget drops a session and its connection if the error says that it has ended.
func (b *Broker) forget(s *session, err error) {
	if b.remove(s, err) {
		s.disconnect()
	}
}

// remove drops a session from the list if the error says that it has ended.
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
		if _, err = conn.Do(bounded, wire.CloseSession()); err == nil {
			err = wire.ErrExpired
		}
		b.forget(s, err)
	}
	if classify(err) == broker.ErrSessionExpired {
		return nil
	}
	return b.failure(ctx, "revoke", "", err)
}
