package faulty

import (
	"context"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/internal/batches"
)

// Commit implements broker.Broker.
func (b *Broker) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	var keys []string
	for _, txn := range txns {
		keys = append(keys, keysOf(txn)...)
	}
	e := b.strike(OpCommit, "", keys...)
	ctx, release := b.hold(ctx)
	defer release()
	if err := b.send(ctx, e); err != nil {
		return all(len(txns), err)
	}
	struck := e.among(txns)
	if e.end != nil && !e.ends(LoseReply) {
		return b.withhold(ctx, e, txns, struck)
	}
	results := b.forward(ctx, e, txns)
	if e.ends(LoseReply) {
		err := lose(ctx, e)
		for i := range results {
			if struck[i] {
				results[i] = broker.Result{Err: err}
			}
		}
	}
	return results
}

// withhold passes on the transactions that are not struck, and the others later if they are
// late.
func (b *Broker) withhold(ctx context.Context, e effect, txns []broker.Txn, struck []bool) []broker.Result {
	var held, spared []broker.Txn
	for i, txn := range txns {
		if struck[i] {
			held = append(held, txn)
		} else {
			spared = append(spared, txn)
		}
	}
	if e.ends(Late) {
		b.later(ctx, e.end.Duration, func(ctx context.Context) { b.inner.Commit(ctx, held...) })
	}
	var answers []broker.Result
	if len(spared) > 0 {
		answers = b.forward(ctx, e, spared)
	}
	var err error
	switch e.end.Fault {
	case Refuse, Forbid:
		err = e.refusal()
	case Late:
		err = e.failure(errLost, true)
	default:
		err = lose(ctx, e)
	}
	results := make([]broker.Result, len(txns))
	for i := range txns {
		if struck[i] {
			results[i].Err = err
		} else {
			results[i], answers = answers[0], answers[1:]
		}
	}
	return results
}

// forward passes transactions on and returns the answers that arrive.
func (b *Broker) forward(ctx context.Context, e effect, txns []broker.Txn) []broker.Result {
	results := b.commit(ctx, e, txns)
	if err := b.receive(ctx, e); err != nil {
		return all(len(txns), err)
	}
	for i, r := range results {
		if r.Err != nil {
			results[i].Err = e.explain(ctx, r.Err)
		}
	}
	return results
}

// commit passes transactions on together, or one by one in another order.
func (b *Broker) commit(ctx context.Context, e effect, txns []broker.Txn) []broker.Result {
	if e.order == nil {
		return b.inner.Commit(ctx, txns...)
	}
	results := make([]broker.Result, len(txns))
	first := true
	batches.Commit(txns, results, func(round []int) {
		for _, n := range e.order.Perm(len(round)) {
			if i := round[n]; first || sleep(ctx, e.apart) == nil {
				results[i] = b.inner.Commit(ctx, txns[i])[0]
			} else {
				results[i].Err = e.failure(reason(ctx), false)
			}
			first = false
		}
	})
	return results
}

func all(n int, err error) []broker.Result { return slices.Repeat([]broker.Result{{Err: err}}, n) }

// among reports which transactions the effect ends. An invalid one is never sent, so no fault
// can affect it.
func (e effect) among(txns []broker.Txn) []bool {
	struck := make([]bool, len(txns))
	for i, txn := range txns {
		struck[i] = e.end != nil && e.end.fits(OpCommit, keysOf(txn)) && txn.Validate() == nil
	}
	return struck
}

func keysOf(txn broker.Txn) []string {
	var keys []string
	for _, c := range txn.If {
		keys = append(keys, c.Key)
	}
	for _, op := range slices.Concat(txn.Then, txn.Else) {
		keys = append(keys, op.Key)
	}
	return keys
}
