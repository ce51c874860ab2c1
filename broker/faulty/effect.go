package faulty

import (
	"context"
	"errors"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// effect is what a plan does to one call.
type effect struct {
	op             Ops
	key            string
	request, reply time.Duration
	stall          bool
	// end is the rule that decides how the call ends, nil when none does.
	end *Rule
}

func (e effect) ends(f Fault) bool { return e.end != nil && e.end.Fault == f }

// strike decides what happens to a call; more keys are those of a batch or a
// commit.
func (b *Broker) strike(op Ops, key string, more ...string) effect {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := effect{op: op, key: key}
	keys := append([]string{key}, more...)
	for i := range b.plan.Rules {
		r := &b.plan.Rules[i]
		if !r.fits(op, keys) {
			continue
		}
		b.fitted[i]++
		if !b.plan.strikes(i, b.fitted[i]) {
			continue
		}
		b.struck[i]++
		switch {
		case r.Fault == DelayRequest:
			e.request += r.Duration
		case r.Fault == DelayReply:
			e.reply += r.Duration
		case r.Fault == Stall:
			e.stall = true
		case e.end == nil:
			e.end = r
		}
	}
	return e
}

// failure is the error of a call that a fault, its context or Close ended. Sent
// tells that the request may have left, which for a write means Maybe.
func (e effect) failure(cause error, sent bool) error {
	kind := broker.ErrUnavailable
	switch cause {
	case errClosed:
		kind, cause = broker.ErrClosed, nil
	case errHistory:
		kind = broker.ErrCompacted
	case errForbidden:
		kind = broker.ErrPermission
	}
	err := broker.NewError(e.op.method(), e.key, kind, cause)
	err.Maybe = sent && e.op&opWrites != 0
	return err
}

// refusal is the error of a call that was not sent, nil if none decides so.
func (e effect) refusal() error {
	switch {
	case e.ends(Refuse):
		return e.failure(errRefused, false)
	case e.ends(Forbid):
		return e.failure(errForbidden, false)
	}
	return nil
}

// hold returns a context that ends with the caller's and with the connection.
func (b *Broker) hold(ctx context.Context) (context.Context, func()) {
	b.mu.Lock()
	link := b.link
	b.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	if link.Err() != nil {
		cancel(context.Cause(link)) // not to depend on when AfterFunc gets its turn
	}
	stop := context.AfterFunc(link, func() { cancel(context.Cause(link)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// reason is why a context of hold has ended: errCut, errClosed or the error of
// the caller's context.
func reason(ctx context.Context) error {
	if cause := context.Cause(ctx); cause == errCut || cause == errClosed {
		return cause
	}
	return ctx.Err()
}

// pass waits while the connection is frozen. It returns nil for a context that
// ended while it was not: the broker behind will notice.
func (b *Broker) pass(ctx context.Context) error {
	for {
		b.mu.Lock()
		link, frozen, thawed := b.link, b.frozen, b.thawed
		b.mu.Unlock()
		switch {
		case link.Err() != nil:
			return context.Cause(link)
		case !frozen:
			return nil
		}
		select {
		case <-thawed:
		case <-link.Done():
		case <-ctx.Done():
			return reason(ctx)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d > 0 && !pause.For(ctx, d) {
		return reason(ctx)
	}
	return nil
}

// send does to a request what happens before it reaches the broker: an error
// means that it does not.
func (b *Broker) send(ctx context.Context, e effect) error {
	if err := b.pass(ctx); err != nil {
		// What waited for a connection that is cut, or closed, was never sent;
		// one that hung until its caller gave up is not so sure.
		return e.failure(err, err != errCut && err != errClosed)
	}
	if err := sleep(ctx, e.request); err != nil {
		return e.failure(err, true)
	}
	if e.stall {
		if err := b.stall(ctx); err != nil {
			return e.failure(err, true)
		}
	}
	if e.request > 0 || e.stall {
		if err := b.pass(ctx); err != nil {
			return e.failure(err, true)
		}
	}
	return nil
}

// stall waits for the next Thaw.
func (b *Broker) stall(ctx context.Context) error {
	b.mu.Lock()
	thawed := b.thawed
	b.mu.Unlock()
	select {
	case <-thawed:
		return nil
	case <-ctx.Done():
		return reason(ctx)
	}
}

// lose waits for the time after which a caller learns that there is no answer.
func lose(ctx context.Context, e effect) error {
	if err := sleep(ctx, e.end.Duration); err != nil {
		return e.failure(err, true)
	}
	return e.failure(errLost, true)
}

// receive does to a reply what happens before it reaches the caller: an error
// means that it does not.
func (b *Broker) receive(ctx context.Context, e effect) error {
	if err := sleep(ctx, e.reply); err != nil {
		return e.failure(err, true)
	}
	if err := b.pass(ctx); err != nil {
		return e.failure(err, true)
	}
	return nil
}

// explain makes an error of the broker behind, whose context was ended by Cut or
// Close, say so.
func (e effect) explain(ctx context.Context, err error) error {
	cause := reason(ctx)
	if cause != errCut && cause != errClosed || !errors.Is(err, broker.ErrUnavailable) {
		return err
	}
	return e.failure(cause, broker.MaybeApplied(err))
}
