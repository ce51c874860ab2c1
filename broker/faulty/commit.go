package faulty

import (
	"context"

	"github.com/windlass-go/windlass/broker"
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
		for _, i := range struck {
			results[i] = broker.Result{Err: err}
		}
	}
	return results
}

// withhold passes only the transactions on that were not struck, or the others
// not yet.
func (b *Broker) withhold(ctx context.Context, e effect, txns []broker.Txn, struck []int) []broker.Result {
	results := make([]broker.Result, len(txns))
	isStruck := make([]bool, len(txns))
	var held, spared []broker.Txn
	for _, i := range struck {
		isStruck[i] = true
		held = append(held, txns[i])
	}
	for i, txn := range txns {
		if !isStruck[i] {
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
	for i := range txns {
		if isStruck[i] {
			results[i].Err = err
		} else {
			results[i], answers = answers[0], answers[1:]
		}
	}
	return results
}

// forward passes transactions on and returns what comes of the answers.
func (b *Broker) forward(ctx context.Context, e effect, txns []broker.Txn) []broker.Result {
	results := b.inner.Commit(ctx, txns...)
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

func all(n int, err error) []broker.Result {
	results := make([]broker.Result, n)
	for i := range results {
		results[i].Err = err
	}
	return results
}

// among returns the indexes of the transactions that the effect's end is about.
// One that is invalid is never sent, so nothing can happen to it on the way.
func (e effect) among(txns []broker.Txn) []int {
	var struck []int
	if e.end == nil {
		return nil
	}
	for i, txn := range txns {
		if e.end.fits(OpCommit, keysOf(txn)) && txn.Validate() == nil {
			struck = append(struck, i)
		}
	}
	return struck
}

func keysOf(txn broker.Txn) []string {
	var keys []string
	for _, c := range txn.If {
		keys = append(keys, c.Key)
	}
	for _, ops := range [][]broker.Op{txn.Then, txn.Else} {
		for _, op := range ops {
			keys = append(keys, op.Key)
		}
	}
	return keys
}
