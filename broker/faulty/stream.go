package faulty

import (
	"context"
	"iter"

	"github.com/windlass-go/windlass/broker"
)

// List implements broker.Broker.
func (b *Broker) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) {
		e := b.strike(OpList, prefix)
		if err := stream(ctx, b, e, yield, func(ctx context.Context) iter.Seq2[broker.Page, error] {
			return b.inner.List(ctx, prefix)
		}, b.page(e)); err != nil {
			yield(broker.Page{}, err)
		}
	}
}

// page returns what happens to each page of a listing.
func (b *Broker) page(e effect) func(context.Context, broker.Page) error {
	return func(ctx context.Context, _ broker.Page) error {
		err := b.receive(ctx, e)
		e.reply = 0 // only the first is delayed
		return err
	}
}

// Watch implements broker.Broker.
func (b *Broker) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		e := b.strike(OpWatch, prefix)
		e.request += e.reply // a watch has a beginning, but no reply
		if err := stream(ctx, b, e, yield, func(ctx context.Context) iter.Seq2[broker.Batch, error] {
			return b.inner.Watch(ctx, prefix, from)
		}, b.batch(prefix)); err != nil {
			yield(broker.Batch{}, err)
		}
	}
}

// batch returns what happens to each batch of a watch.
func (b *Broker) batch(prefix string) func(context.Context, broker.Batch) error {
	return func(ctx context.Context, batch broker.Batch) error {
		keys := make([]string, len(batch.Events))
		for i, event := range batch.Events {
			keys[i] = event.KV.Key
		}
		e := b.strike(OpBatch, prefix, keys...)
		e.request += e.reply
		if err := b.send(ctx, e); err != nil {
			return err
		}
		return e.cutShort(ctx)
	}
}

// stream yields what the broker behind does, until the caller has enough, when it
// returns nil, or until an error. Each element has to get past arrive.
func stream[T any](ctx context.Context, b *Broker, e effect, yield func(T, error) bool,
	open func(context.Context) iter.Seq2[T, error], arrive func(context.Context, T) error) error {
	ctx, release := b.hold(ctx)
	defer release()
	if err := b.send(ctx, e); err != nil {
		return err
	}
	if err := e.cutShort(ctx); err != nil {
		return err
	}
	for element, err := range open(ctx) {
		if err != nil {
			return e.explain(ctx, err)
		}
		if err := arrive(ctx, element); err != nil {
			return err
		}
		if !yield(element, nil) {
			return nil
		}
	}
	return nil
}

// cutShort is the error with which a listing or a watch is struck, if it is.
func (e effect) cutShort(ctx context.Context) error {
	if e.end == nil {
		return nil
	}
	switch e.end.Fault {
	case Refuse, Forbid:
		return e.refusal()
	case Break:
		return e.failure(errBroken, false)
	case Compact:
		return e.failure(errHistory, false)
	default:
		return lose(ctx, e)
	}
}
