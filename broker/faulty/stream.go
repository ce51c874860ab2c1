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
		reply := e
		stream(ctx, b, e, yield, func(ctx context.Context) iter.Seq2[broker.Page, error] {
			return b.inner.List(ctx, prefix)
		}, func(ctx context.Context, _ broker.Page) error {
			err := b.receive(ctx, reply)
			reply.reply = 0 // only the first page is delayed
			return err
		})
	}
}

// Watch implements broker.Broker.
func (b *Broker) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	return func(yield func(broker.Batch, error) bool) {
		e := b.strike(OpWatch, prefix)
		e.request += e.reply // a watch has no single reply
		stream(ctx, b, e, yield, func(ctx context.Context) iter.Seq2[broker.Batch, error] {
			return b.inner.Watch(ctx, prefix, from)
		}, func(ctx context.Context, batch broker.Batch) error {
			keys := make([]string, len(batch.Events))
			for i, event := range batch.Events {
				keys[i] = event.KV.Key
			}
			e := b.strike(OpBatch, prefix, keys...)
			e.request += e.reply
			return b.begin(ctx, e)
		})
	}
}

// stream yields the elements of the inner broker until the caller stops, or until an error.
// arrive applies the faults to each element.
func stream[T any](ctx context.Context, b *Broker, e effect, yield func(T, error) bool,
	open func(context.Context) iter.Seq2[T, error], arrive func(context.Context, T) error) {
	var none T
	ctx, release := b.hold(ctx)
	defer release()
	if err := b.begin(ctx, e); err != nil {
		yield(none, err)
		return
	}
	for element, err := range open(ctx) {
		if err != nil {
			err = e.explain(ctx, err)
		} else {
			err = arrive(ctx, element)
		}
		if err != nil {
			yield(none, err)
			return
		}
		if !yield(element, nil) {
			return
		}
	}
}

// begin is send, for a listing, a watch or a batch that a fault may also end.
func (b *Broker) begin(ctx context.Context, e effect) error {
	if err := b.send(ctx, e); err != nil || e.end == nil {
		return err
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
