package faulty

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/pause"
)

// effect is the effect of a plan on one call.
type effect struct {
	op             Ops
	key            string
	request, reply time.Duration
	stall          bool
	// order, if set, is the random order of the transactions, and apart the time between
	// two of them.
	order *rand.Rand
	apart time.Duration
	// end is the rule that decides how the call ends, nil if none does.
	end *Rule
}

func (e effect) ends(f Fault) bool { return e.end != nil && e.end.Fault == f }

// strike returns the effect on a call. A batch or a commit has more keys.
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
		case r.Fault == Reorder:
			e.order, e.apart = b.plan.random(i, b.fitted[i]), r.Duration
		case e.end == nil:
			e.end = r
		}
	}
	return e
}

// failure returns the error of a call that a fault, its context or Close ended. If the
// request may have been sent, the outcome of a write is unknown.
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

// refusal returns the error of a call that is refused, nil if it is not.
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
		cancel(context.Cause(link)) // because AfterFunc runs later
	}
	stop := context.AfterFunc(link, func() { cancel(context.Cause(link)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// reason returns why a context of hold has ended: errCut, errClosed or the error of the
// caller's context.
func reason(ctx context.Context) error {
	if cause := context.Cause(ctx); cause == errCut || cause == errClosed {
		return cause
	}
	return ctx.Err()
}

// pass waits while the connection is frozen. It does not check the context if it is not: the
// inner broker does.
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

// send applies the faults to a request before it reaches the inner broker. After an error it
// does not.
func (b *Broker) send(ctx context.Context, e effect) error {
	if err := b.pass(ctx); err != nil {
		// A request that waited for a connection that is cut or closed was never
		// sent; one that hung until its context ended may have been.
		return e.failure(err, err != errCut && err != errClosed)
	}
	err := sleep(ctx, e.request)
	if err == nil && e.stall {
		err = b.stall(ctx)
	}
	if err == nil && (e.request > 0 || e.stall) {
		err = b.pass(ctx)
	}
	if err != nil {
		return e.failure(err, true)
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

// lose waits until the caller is to get the error, and returns it.
func lose(ctx context.Context, e effect) error {
	if err := sleep(ctx, e.end.Duration); err != nil {
		return e.failure(err, true)
	}
	return e.failure(errLost, true)
}

// receive applies the faults to a reply before it reaches the caller. After an error it does
// not.
func (b *Broker) receive(ctx context.Context, e effect) error {
	err := sleep(ctx, e.reply)
	if err == nil {
		err = b.pass(ctx)
	}
	if err != nil {
		return e.failure(err, true)
	}
	return nil
}

// explain replaces an error of the inner broker if Cut or Close ended its context.
func (e effect) explain(ctx context.Context, err error) error {
	cause := reason(ctx)
	if cause != errCut && cause != errClosed || !errors.Is(err, broker.ErrUnavailable) {
		return err
	}
	return e.failure(cause, broker.MaybeApplied(err))
}
