package coordinator

import (
	"bytes"
	"context"
	"errors"

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
	// Checkpoint writes the task's progress and keeps the claim.
	Checkpoint
	// Discard does nothing but delete a command.
	Discard
)

// Ending is a write in the name of a claim.
type Ending struct {
	// ID and Token are the claim's.
	ID    string
	Token broker.Revision
	// Created and PropsOnly are the claim's too, and must be set for all but a
	// Release that has neither For nor Command: they concern the task that was
	// claimed, and no other that was submitted under its ID since it was deleted.
	Created   broker.Revision
	PropsOnly bool
	// Kind says what to do.
	Kind Kind
	// For, if set, is the node that a Release is meant for. It is noted beside
	// the task, with this session, for others to leave it to that node for a
	// moment.
	For string
	// State is the state to write. It must be set for Save and Done, and may
	// be for Release; for Checkpoint it is the progress.
	State []byte
	// Forget tells a Done to remove the progress, too.
	Forget bool
	// Mark, if set, is what a Done leaves beside the task: it keeps those that
	// wait for it from running. See FailureMark.
	Mark []byte
	// Replaces is the revision of the state that a Save replaces, or of the
	// progress that a Checkpoint does, zero for none. It keeps one that is
	// applied late from undoing a later one of the same claim.
	Replaces broker.Revision
	// Command is the revision of the command that is the reason for this, zero
	// for none. It is deleted in the same transaction, which takes no effect if
	// the task has another command by now, or none.
	Command broker.Revision
	// Unrecorded tells that no Note about this claim was ever sent, so that there
	// is no record of it to delete.
	Unrecorded bool
	// Bare tells that there is no mark of an earlier failure beside the task, nor
	// a note of whom it was released for, so that a Done has neither to delete.
	// While the claim is held nobody else writes them.
	Bare bool
	// Again tells that an earlier attempt at this very ending may have been
	// applied.
	Again bool
}

// Ending begins the ending of a claim.
func (g Granted) Ending(kind Kind) Ending {
	return Ending{ID: g.ID, Token: g.Token, Created: g.Created, PropsOnly: g.PropsOnly, Kind: kind}
}

// Ended is the outcome of one ending.
type Ended struct {
	// Err says why it did not take effect, nil if it did.
	Err error
	// StateRevision is the revision of the state after a Save, or of the progress
	// after a Checkpoint, and with ErrStateChanged the one that it would have to
	// replace.
	StateRevision broker.Revision
	// Requeued tells that a Done has not removed the task, because it was to be
	// submitted again once its run had ended, and now is: the state that the
	// ending was to write is written nowhere.
	Requeued bool
}

// held tells whether the claim goes on.
func (k Kind) held() bool { return k == Save || k == Checkpoint || k == Discard }

// End implements Coordinator.
func (c *claims) End(ctx context.Context, endings []Ending) []Ended {
	txns := make([]broker.Txn, len(endings))
	for i, e := range endings {
		txns[i] = c.endTxn(e)
	}
	results := make([]Ended, len(endings))
	var refused []int
	for i, r := range c.broker.Commit(ctx, txns...) {
		switch {
		case r.Err != nil:
			results[i].Err = r.Err
		case r.OK:
			results[i].StateRevision = r.Revision
		default:
			refused = append(refused, i)
		}
	}
	c.explainEnds(ctx, endings, results, refused)
	return results
}

// explainEnds finds out why endings were refused, by what is stored now. Few are,
// so this costs less than asking along with every ending.
func (c *claims) explainEnds(ctx context.Context, endings []Ending, results []Ended, refused []int) {
	if len(refused) == 0 {
		return
	}
	txns := make([]broker.Txn, len(refused))
	for k, i := range refused {
		e := endings[i]
		for _, key := range []string{c.stateOf(e), c.space.Owner(e.ID), c.existenceOf(e), c.space.TaskCommand(e.ID), c.space.Requeue(e.ID)} {
			txns[k].Then = append(txns[k].Then, broker.Read(key))
		}
	}
	var again []int
	var waiting []*broker.KV
	for k, r := range c.broker.Commit(ctx, txns...) {
		i := refused[k]
		switch {
		case r.Err != nil:
			results[i].Err = r.Err
		default:
			results[i] = endings[i].refusal(r.Reads)
			if endings[i].Kind == Done && r.Reads[4] != nil && errors.Is(results[i].Err, ErrStateChanged) {
				// Nothing else speaks against it than that the task is to run again.
				again, waiting = append(again, i), append(waiting, r.Reads[4])
			}
		}
	}
	if len(again) > 0 {
		c.endRequeued(ctx, endings, again, waiting, results)
	}
}

// stateOf is the key that an ending writes the state to.
func (c *claims) stateOf(e Ending) string {
	if e.Kind == Checkpoint {
		return c.space.Progress(e.ID)
	}
	return c.space.State(e.ID)
}

// existenceOf is the key by which the task of an ending exists.
func (c *claims) existenceOf(e Ending) string {
	return c.existence(Wanted{ID: e.ID, PropsOnly: e.PropsOnly})
}

// refusal says why an ending was refused, by what was read since. If an earlier
// attempt may have been applied, being refused now may mean that it was.
func (e Ending) refusal(reads []*broker.KV) Ended {
	state, owner, task, command := reads[0], reads[1], reads[2], reads[3]
	ours := e.Again && e.State != nil && state != nil && bytes.Equal(state.Value, e.State)
	superseded := e.Command != 0 && (command == nil || command.Modified != e.Command)
	switch {
	case e.Again && e.Kind == Release && e.State == nil && (owner == nil || owner.Created != e.Token):
		return Ended{} // given back by us or lost: it is not held, which is all that was asked for
	case ours && !e.Kind.held():
		return Ended{} // the state carries our token, so nobody else wrote it
	case owner == nil || owner.Created != e.Token:
		return Ended{Err: ErrFenced}
	case (e.Kind != Release || e.For != "" || e.Command != 0) && (task == nil || task.Created != e.Created):
		return Ended{Err: ErrGone}
	case ours:
		return Ended{StateRevision: state.Modified}
	case superseded && e.Kind == Discard:
		return Ended{} // it is gone, which is all that was asked for
	case superseded:
		return Ended{Err: ErrSuperseded}
	case state == nil:
		return Ended{Err: ErrStateChanged}
	default:
		return Ended{Err: ErrStateChanged, StateRevision: state.Modified}
	}
}

func (c *claims) endTxn(e Ending) broker.Txn {
	owner, state, exists, command := c.space.Owner(e.ID), c.stateOf(e), c.existenceOf(e), c.space.TaskCommand(e.ID)
	txn := broker.Txn{If: []broker.Cond{broker.Created(owner, e.Token)}}
	if e.Kind != Release {
		txn.If = append(txn.If, broker.Created(exists, e.Created))
	}
	switch overwrites := e.Kind == Save || e.Kind == Checkpoint; {
	case overwrites && e.Replaces == 0:
		txn.If = append(txn.If, broker.Absent(state))
	case overwrites:
		txn.If = append(txn.If, broker.Modified(state, e.Replaces))
	}
	if e.Command != 0 {
		txn.If = append(txn.If, broker.Modified(command, e.Command))
	}
	if e.Kind == Done {
		txn.If = append(txn.If, broker.Absent(c.space.Requeue(e.ID)))
	}
	if e.State != nil {
		txn.Then = append(txn.Then, broker.Put(state, e.State))
	}
	switch e.Kind {
	case Release:
		txn.Then = append(txn.Then, broker.Delete(owner))
		if e.For != "" || e.Command != 0 {
			// No note beside a task that is gone, and no other task's command.
			txn.If = append(txn.If, broker.Created(exists, e.Created))
		}
		if e.For == "" {
			txn.Then = append(txn.Then, broker.Delete(c.space.Handover(e.ID))) // it may have been announced
		} else {
			txn.Then = append(txn.Then, broker.PutSession(c.space.Handover(e.ID), OwnerValue(e.For), c.Session))
		}
	case Done:
		// Key by key: what else is below the task is a newer version's (M06).
		txn.Then = append(txn.Then, broker.Delete(c.space.Task(e.ID)), broker.Delete(c.space.Props(e.ID)), broker.Delete(owner))
		if !e.Bare {
			txn.Then = append(txn.Then, broker.Delete(c.space.Handover(e.ID)))
		}
		if e.Mark != nil {
			txn.Then = append(txn.Then, broker.Put(c.space.Failed(e.ID), e.Mark))
		} else if !e.Bare {
			txn.Then = append(txn.Then, broker.Delete(c.space.Failed(e.ID)))
		}
		if e.Forget {
			txn.Then = append(txn.Then, broker.Delete(c.space.Progress(e.ID)))
		}
	}
	if !e.Unrecorded && !e.Kind.held() {
		txn.Then = append(txn.Then, broker.Delete(c.space.Claim(e.ID)))
	}
	if e.Command != 0 || e.Kind == Done {
		txn.Then = append(txn.Then, broker.Delete(command))
	}
	return txn
}
