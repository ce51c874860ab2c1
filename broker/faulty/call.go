package faulty

import (
	"context"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// call makes a call with one answer.
func call[T any](ctx context.Context, b *Broker, e effect, do func(context.Context) (T, error)) (T, error) {
	var none T
	ctx, release := b.hold(ctx)
	defer release()
	if err := b.send(ctx, e); err != nil {
		return none, err
	}
	if err := e.refusal(); err != nil {
		return none, err
	}
	switch {
	case e.ends(LoseRequest):
		return none, lose(ctx, e)
	case e.ends(Late):
		b.later(ctx, e.end.Duration, func(ctx context.Context) { _, _ = do(ctx) }) // the caller is gone
		return none, e.failure(errLost, true)
	}
	answer, err := do(ctx)
	if e.ends(LoseReply) {
		return none, lose(ctx, e)
	}
	if lost := b.receive(ctx, e); lost != nil {
		return none, lost
	}
	if err != nil {
		return none, e.explain(ctx, err)
	}
	return answer, nil
}

// Get implements broker.Broker.
func (b *Broker) Get(ctx context.Context, key string) (broker.KV, error) {
	return call(ctx, b, b.strike(OpGet, key), func(ctx context.Context) (broker.KV, error) {
		return b.inner.Get(ctx, key)
	})
}

// Grant implements broker.Broker.
func (b *Broker) Grant(ctx context.Context, folder string, ttl time.Duration) (broker.Session, error) {
	return call(ctx, b, b.strike(OpGrant, ""), func(ctx context.Context) (broker.Session, error) {
		return b.inner.Grant(ctx, folder, ttl)
	})
}

// KeepAlive implements broker.Broker.
func (b *Broker) KeepAlive(ctx context.Context, id broker.SessionID) (time.Duration, error) {
	return call(ctx, b, b.strike(OpKeepAlive, ""), func(ctx context.Context) (time.Duration, error) {
		return b.inner.KeepAlive(ctx, id)
	})
}

// Revoke implements broker.Broker.
func (b *Broker) Revoke(ctx context.Context, id broker.SessionID) error {
	_, err := call(ctx, b, b.strike(OpRevoke, ""), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, b.inner.Revoke(ctx, id)
	})
	return err
}
