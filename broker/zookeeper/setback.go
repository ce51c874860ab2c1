package zookeeper

import (
	"context"
	"errors"
	"fmt"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/zookeeper/internal/wire"
)

// setBackError tells that an ensemble has lost what it had agreed to, as one has that was
// restored from a backup.
type setBackError struct {
	// seen is a transaction that is gone, now one that came after the loss, or before.
	seen, now int64
}

func (e *setBackError) Error() string {
	return fmt.Sprintf("the ensemble was set back, as by restoring a backup, or is another one: transaction %#x is gone", e.seen)
}

// lookBehind finds out whether servers hang up because they were set back: they do so on
// whoever has seen a transaction that they do not have, and to one that was restored it
// never comes. A transaction that a majority agrees to today and that comes before one that
// was seen proves it. Then what was seen is forgotten, and all begins anew; what a session
// has of this it finds out itself.
func (b *Broker) lookBehind(ctx context.Context) error {
	seen := b.seen.Load()
	conn, err := b.dialRound(ctx, func(c *wire.Config) { c.Timeout, c.LastZxid = linkTimeout, 0 })
	if err != nil {
		return err
	}
	defer conn.Close()
	agreed, err := conn.Do(ctx, b.layout.barrier())
	if err != nil {
		return err
	}
	_, _ = conn.Do(ctx, wire.CloseSession()) // or it expires
	if agreed.Zxid >= seen {
		return nil // the server had only been late
	}
	lost := &setBackError{seen, agreed.Zxid}
	b.setBack.Store(lost)
	b.seen.Store(agreed.Zxid)
	return lost
}

// isLost tells of a revision that the ensemble had before it was set back and has not
// reached again.
func (b *Broker) isLost(revision, complete broker.Revision) bool {
	lost := b.setBack.Load()
	return lost != nil && revision > complete && revision <= broker.Revision(lost.seen)
}

// verify ends a session that was resumed at an ensemble that was set back: what hangs on it
// there is not what its owner knows. Its znode tells, if its last write is gone.
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
	return fmt.Errorf("%w: %w", wire.ErrExpired, &setBackError{written, z.stat.Mzxid})
}

// expiredError adds to the end of a session that it has to do with that, if it has.
func (s *session) expiredError(err error) error {
	lost := s.broker.setBack.Load()
	s.timing.Lock()
	defer s.timing.Unlock()
	if lost == nil || !errors.Is(err, wire.ErrExpired) || s.written <= lost.now || s.written > lost.seen {
		return err
	}
	return fmt.Errorf("%w: %w", err, lost)
}
