package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// setBackError reports that an ensemble has lost committed transactions, as after restoring
// a backup.
type setBackError struct {
	// gone is a transaction that it had.
	gone int64
	// at is when this was detected, by the clock of connections.
	at time.Duration
}

func (e *setBackError) Error() string {
	return fmt.Sprintf("the ensemble was set back, as by restoring a backup, or is another one: transaction %#x is gone", e.gone)
}

// lookBehind checks whether the servers refuse a link because they were set back, and
// returns the reason, or else the given error. Servers hang up on a client that has seen a
// transaction that they do not have. They were set back if a majority now agrees to a
// transaction with a lower number than one already seen. Then what was seen is forgotten,
// and the next link starts over.
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
		return refused // the server only lagged
	}
	lost := &setBackError{gone: seen, at: b.now()}
	b.setBack.Store(lost)
	b.seen.Store(agreed.Zxid)
	return lost
}

// isLost reports whether a revision is one that the ensemble had before it was set back and
// has not reached again.
func (b *Broker) isLost(revision, complete broker.Revision) bool {
	lost := b.setBack.Load()
	return lost != nil && revision > complete && revision <= broker.Revision(lost.gone)
}

// verify ends a resumed session if the last write of its znode is gone: on an ensemble that
// was set back, the session's keys are not those that its owner knows.
func (s *session) verify(ctx context.Context, conn *wire.Conn) error {
	s.timing.Lock()
	written := s.written
	s.timing.Unlock()
	if written == 0 {
		return nil
	}
	z, err := readZnode(ctx, conn, s.broker.layout.session(s.id))
	if err != nil || !z.there || z.stat.Mzxid >= written {
		return err // the next renewal notices that the znode is missing
	}
	_, _ = conn.Do(ctx, wire.CloseSession()) // or it expires
	return fmt.Errorf("%w: %w", wire.ErrExpired, &setBackError{gone: written})
}

// resumeError returns the error of resuming a session. If the servers do not know the
// session because they were set back, the error says so.
func (s *session) resumeError(err error) error {
	lost := s.broker.setBack.Load()
	s.timing.Lock()
	defer s.timing.Unlock()
	if lost == nil || !errors.Is(err, wire.ErrExpired) || s.connected > lost.at {
		return err
	}
	return fmt.Errorf("%w: %w", err, lost)
}
