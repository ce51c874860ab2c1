package coordinator

import (
	"bytes"
	"context"

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
	// Again tells that an earlier attempt at this very ending may have been
	// applied.
	Again bool
}

// End implements Coordinator.
func (c *claims) End(ctx context.Context, endings []Ending) []error {
	txns := make([]broker.Txn, len(endings))
	for i, e := range endings {
		txns[i] = c.endTxn(e)
	}
	errs := make([]error, len(endings))
	for i, r := range c.broker.Commit(ctx, txns...) {
		errs[i] = endings[i].outcome(r)
	}
	return errs
}

// outcome reads the result of one attempt. If an earlier attempt may have been
// applied, being refused now may mean that it was.
func (e Ending) outcome(r broker.Result) error {
	switch {
	case r.Err != nil:
		return r.Err
	case r.OK:
		return nil
	case e.Again && e.Kind == Release && e.State == nil:
		return nil // given back by us or lost: it is not held, which is all that was asked for
	case e.Again && e.Kind != Save && r.Reads[0] != nil && bytes.Equal(r.Reads[0].Value, e.State):
		return nil // the state carries our token, so nobody else wrote it
	default:
		return ErrFenced
	}
}

func (c *claims) endTxn(e Ending) broker.Txn {
	owner, state := c.space.Owner(e.ID), c.space.State(e.ID)
	txn := broker.Txn{
		If:   []broker.Cond{broker.Created(owner, e.Token)},
		Else: []broker.Op{broker.Read(state)},
	}
	if e.State != nil {
		txn.Then = append(txn.Then, broker.Put(state, e.State))
	}
	switch e.Kind {
	case Release:
		txn.Then = append(txn.Then, broker.Delete(owner), broker.Delete(c.space.Claim(e.ID)))
	case Done:
		txn.Then = append(txn.Then, broker.Delete(c.space.Task(e.ID)), broker.DeleteTree(c.space.TaskTree(e.ID)),
			broker.Delete(c.space.Claim(e.ID)), broker.Delete(c.space.TaskCommand(e.ID)))
	}
	return txn
}
