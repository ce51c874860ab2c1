package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// setBackError tells that an ensemble has lost what it had agreed to, as one has that was
// restored from a backup.
type setBackError struct {
	// gone is a transaction that it had.
	gone int64
	// at is when this was found out, by the clock of connections.
	at time.Duration
}

func (e *setBackError) Error() string {
	return fmt.Sprintf("the ensemble was set back, as by restoring a backup, or is another one: transaction %#x is gone", e.gone)
}

// lookBehind finds out whether the servers refuse a link because they were set back, and
// returns that, or else the error that it was given. Servers hang up on whoever has seen a
// transaction that they do not have, and to those that were set back it never comes. The
// proof is a transaction that a majority agrees to now and that is numbered below one that
// was seen. Then what was seen is forgotten, and the next link begins anew.
func (b *Broker) lookBehind(refused error) error {
	seen := b.seen.Load()
	if !isHangUp(refused) || seen == 0 {
		return refused
	}
	ctx, cancel := context.WithTimeout(b.life, b.config.DialTimeout)
	defer cancel()
	conn, err := b.dialRound(ctx, func(c *wire.Config) { c.Timeout, c.LastZxid = linkTimeout, 0 })
	if err != nil {
		return refused
	}
	defer conn.Close()
	agreed, err := conn.Do(ctx, b.layout.barrier())
	_, _ = conn.Do(ctx, wire.CloseSession()) // or it expires
	if err != nil || agreed.Zxid >= seen {
		return refused // that server had only been late
	}
	lost := &setBackError{gone: seen, at: b.now()}
	b.setBack.Store(lost)
	b.seen.Store(agreed.Zxid)
	return lost
}

// isLost tells of a revision that the ensemble had before it was set back and has not
// reached again.
func (b *Broker) isLost(revision, complete broker.Revision) bool {
	lost := b.setBack.Load()
	return lost != nil && revision > complete && revision <= broker.Revision(lost.gone)
}

// verify ends a session that was resumed although the last write of its znode is gone: what
// hangs on it at an ensemble that was set back is not what its owner knows.
func (s *session) verify(ctx context.Context, conn *wire.Conn) error {
	s.timing.Lock()
	written := s.written
	s.timing.Unlock()
	if written == 0 {
		return nil
	}
	reply, err := conn.Do(ctx, wire.MultiRead([]wire.Read{wire.GetData(s.broker.layout.session(s.id))}))
	if err != nil {
		return err
	}
	z, err := toZnode(reply.Results[0])
	if err != nil || !z.there || z.stat.Mzxid >= written {
		return err // one that somebody deleted is found by whoever renews
	}
	_, _ = conn.Do(ctx, wire.CloseSession()) // or it expires
	return fmt.Errorf("%w: %w", wire.ErrExpired, &setBackError{gone: written})
}

// resumeError is the error of resuming a session. That servers do not know one from before
// they were set back is explained by that.
func (s *session) resumeError(err error) error {
	lost := s.broker.setBack.Load()
	s.timing.Lock()
	defer s.timing.Unlock()
	if lost == nil || !errors.Is(err, wire.ErrExpired) || s.connected > lost.at {
		return err
	}
	return fmt.Errorf("%w: %w", err, lost)
}
