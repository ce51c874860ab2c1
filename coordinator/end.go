package coordinator

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// Kind is the kind of an ending.
type Kind uint8

// The kinds of endings.
const (
	// Save writes the state and keeps the claim.
	Save Kind = iota + 1
	// Release gives the claim back, so that any node may claim the task at once.
	Release
	// Done writes the final state and removes the task for good.
	Done
	// Checkpoint writes the task's progress and keeps the claim.
	Checkpoint
	// Discard only deletes a command.
	Discard
)

// Ending is a write in the name of a claim.
type Ending struct {
	// Ref is the claim. Created and PropsOnly must be set except for a Release with
	// neither For nor Command. They ensure that the ending affects the task that was
	// claimed, and no other that was submitted under its ID since it was deleted.
	Ref
	// Kind says what to do.
	Kind Kind
	// At is when the owner decided that, for the history of the task: the broker may be asked
	// later. It is not stored.
	At time.Time
	// For, if set, is the node that a Release is meant for. It is noted beside the
	// task, with this session, so that other nodes leave the task to that node for a
	// moment. If Kept is set, For is the node that holds the task and is to be back: the note
	// outlives the session.
	For  string
	Kept bool
	// State is the state to write. It is required for Save and Done and optional for
	// Release. For Checkpoint it is the progress.
	State []byte
	// Forget makes a Done remove the progress too.
	Forget bool
	// Mark, if set, is the failure mark that a Done leaves beside the task: it keeps
	// the tasks that wait for it from running. See FailureMark.
	Mark []byte
	// Replaces is the revision of the state that a Save replaces, or of the progress
	// that a Checkpoint replaces, zero for none. It prevents an ending that is applied
	// late from undoing a later one of the same claim.
	Replaces broker.Revision
	// Command is the revision of the command that caused this ending, zero for none.
	// The same transaction deletes the command, and takes no effect if the task has
	// another command by now, or none.
	Command broker.Revision
	// Unrecorded is true if no record of this claim was ever sent, so that there is no
	// record of it to delete.
	Unrecorded bool
	// Bare is true if the task has neither the mark of an earlier failure nor a
	// handover note, so that a Done need not delete them. While the claim is held
	// nobody else writes them.
	Bare bool
	// Again is true if an earlier attempt at this very ending may have been applied.
	Again bool
}

// Ended is the outcome of one ending.
type Ended struct {
	// Err is the reason why it did not take effect, nil if it did.
	Err error
	// StateRevision is the revision of the state after a Save, or of the progress after
	// a Checkpoint. With ErrStateChanged it is the revision that the ending would have
	// to replace.
	StateRevision broker.Revision
	// Requeued is true if a Done has not removed the task but submitted it again,
	// because a submission waited for the end of its run. The state of the ending is
	// then written nowhere.
	Requeued bool
}

// held reports whether the claim is kept.
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

// explainEnds finds out from the stored data why endings were refused. Few are refused,
// so this costs less than reading the same keys along with every ending.
func (c *claims) explainEnds(ctx context.Context, endings []Ending, results []Ended, refused []int) {
	if len(refused) == 0 {
		return
	}
	txns := make([]broker.Txn, len(refused))
	for k, i := range refused {
		e := endings[i]
		txns[k].Then = []broker.Op{
			broker.Read(c.stateOf(e)), broker.Read(c.space.Owner(e.ID)), broker.Read(c.existence(e.ID, e.PropsOnly)),
			broker.Read(c.space.TaskCommand(e.ID)), broker.Read(c.space.Requeue(e.ID)),
		}
	}
	var again []int
	var waiting []*broker.KV
	for k, r := range c.broker.Commit(ctx, txns...) {
		i := refused[k]
		if r.Err != nil {
			results[i].Err = r.Err
			continue
		}
		results[i] = endings[i].refusal(r.Reads)
		if endings[i].Kind == Done && r.Reads[4] != nil && errors.Is(results[i].Err, ErrStateChanged) {
			// The only reason for the refusal is that the task is to run again.
			again, waiting = append(again, i), append(waiting, r.Reads[4])
		}
	}
	if len(again) > 0 {
		c.endRequeued(ctx, endings, again, waiting, results)
	}
}

// stateOf returns the key to which an ending writes the state.
func (c *claims) stateOf(e Ending) string {
	if e.Kind == Checkpoint {
		return c.space.Progress(e.ID)
	}
	return c.space.State(e.ID)
}

// refusal returns why an ending was refused, from what was read since. If an earlier
// attempt may have been applied, a refusal now may mean that it was.
func (e Ending) refusal(reads []*broker.KV) Ended {
	state, owner, task, command := reads[0], reads[1], reads[2], reads[3]
	ours := e.Again && e.State != nil && state != nil && bytes.Equal(state.Value, e.State)
	superseded := e.Command != 0 && (command == nil || command.Modified != e.Command)
	switch {
	case e.Again && e.Kind == Release && e.State == nil && (owner == nil || owner.Created != e.Token):
		return Ended{} // released by us or lost: in any case it is not held
	case ours && !e.Kind.held():
		return Ended{} // the state carries our token, so nobody else wrote it
	case owner == nil || owner.Created != e.Token:
		return Ended{Err: ErrFenced}
	case (e.Kind != Release || e.For != "" || e.Command != 0) && (task == nil || task.Created != e.Created):
		return Ended{Err: ErrGone}
	case ours:
		return Ended{StateRevision: state.Modified}
	case superseded && e.Kind == Discard:
		return Ended{} // the command is gone already
	case superseded:
		return Ended{Err: ErrSuperseded}
	case state == nil:
		return Ended{Err: ErrStateChanged}
	default:
		return Ended{Err: ErrStateChanged, StateRevision: state.Modified}
	}
}

func (c *claims) endTxn(e Ending) broker.Txn {
	owner, state, exists, command := c.space.Owner(e.ID), c.stateOf(e), c.existence(e.ID, e.PropsOnly), c.space.TaskCommand(e.ID)
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
			// Write no note beside a task that is gone, and delete no command to another.
			txn.If = append(txn.If, broker.Created(exists, e.Created))
		}
		if e.For == "" {
			txn.Then = append(txn.Then, broker.Delete(c.space.Handover(e.ID))) // it may have been announced
		} else if e.Kept {
			txn.Then = append(txn.Then, broker.Put(c.space.Handover(e.ID), OwnerValue(e.For)))
		} else {
			txn.Then = append(txn.Then, broker.PutSession(c.space.Handover(e.ID), OwnerValue(e.For), c.Session))
		}
	case Done:
		// Key by key: other keys below the task belong to a newer version (M06).
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
