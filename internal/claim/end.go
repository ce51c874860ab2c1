package claim

import (
	"bytes"
	"context"
	"math/rand/v2"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// Kind says how a claim ends, if it does.
type Kind uint8

// The kinds of endings.
const (
	// Save writes the state and keeps the claim.
	Save Kind = iota + 1
	// Release gives the claim back, so that anyone may claim the task at once.
	Release
	// Done writes the final state and removes the task for good.
	Done
)

// Ending is a write in the name of a claim.
type Ending struct {
	// ID and Token are the claim's.
	ID    string
	Token broker.Revision
	// Kind says what to do.
	Kind Kind
	// State is the state to write. It must be set for Save and Done, and may
	// be for Release.
	State []byte
}

// Bounds of the pause before an ending, or a read-back, is tried again.
const (
	retryMin = 20 * time.Millisecond
	retryMax = time.Second
)

// End performs every ending, each in one transaction that only the present
// owner can win, and returns one error for each, in order: nil when it took
// effect, ErrFenced when the claim is no longer held. While the broker does not
// answer it tries again, until ctx is done.
func (c *Claims) End(ctx context.Context, endings []Ending) []error {
	errs := make([]error, len(endings))
	open := make([]int, len(endings))
	for i := range endings {
		open[i] = i
	}
	for retry := retryMin; len(open) > 0; retry = backOff(ctx, retry) {
		txns := make([]broker.Txn, len(open))
		for k, i := range open {
			txns[k] = c.endTxn(endings[i])
		}
		var again []int
		for k, r := range c.Broker.Commit(ctx, txns...) {
			i := open[k]
			errs[i] = c.outcome(endings[i], r, errs[i])
			if broker.Temporary(errs[i]) {
				again = append(again, i)
			}
		}
		open = again
		if ctx.Err() != nil {
			break
		}
	}
	return errs
}

// outcome reads the result of one attempt. previous is the error of the attempt
// before: if that one may have been applied, being refused now may mean that it
// was.
func (c *Claims) outcome(e Ending, r broker.Result, previous error) error {
	switch {
	case r.Err != nil:
		if broker.MaybeApplied(previous) && !broker.MaybeApplied(r.Err) && broker.Temporary(r.Err) {
			return previous // a later attempt that was surely not applied does not settle the earlier one
		}
		return r.Err
	case r.OK:
		return nil
	case broker.MaybeApplied(previous) && e.Kind == Release && e.State == nil:
		return nil // given back by us or lost: it is not held, which is all that was asked for
	case broker.MaybeApplied(previous) && e.Kind != Save && r.Reads[0] != nil && bytes.Equal(r.Reads[0].Value, e.State):
		return nil // the state carries our token, so nobody else wrote it
	default:
		return ErrFenced
	}
}

func (c *Claims) endTxn(e Ending) broker.Txn {
	owner, state := c.Space.Owner(e.ID), c.Space.State(e.ID)
	txn := broker.Txn{
		If:   []broker.Cond{broker.Created(owner, e.Token)},
		Else: []broker.Op{broker.Read(state)},
	}
	if e.State != nil {
		txn.Then = append(txn.Then, broker.Put(state, e.State))
	}
	switch e.Kind {
	case Release:
		txn.Then = append(txn.Then, broker.Delete(owner), broker.Delete(c.Space.Claim(e.ID)))
	case Done:
		txn.Then = append(txn.Then, broker.Delete(c.Space.Task(e.ID)), broker.DeleteTree(c.Space.TaskTree(e.ID)),
			broker.Delete(c.Space.Claim(e.ID)), broker.Delete(c.Space.TaskCommand(e.ID)))
	}
	return txn
}

// backOff pauses for about retry, or until ctx is done, and returns the next
// pause.
func backOff(ctx context.Context, retry time.Duration) time.Duration {
	select {
	case <-ctx.Done():
	case <-time.After(retry/2 + rand.N(retry)):
	}
	return min(2*retry, retryMax)
}
