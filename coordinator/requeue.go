package coordinator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/statemachine"
)

// Requeue is the value of tasks/<task>/requeue: what a held task is submitted as once
// its run has ended, in the transaction that ends it.
type Requeue struct {
	// Created is the revision at which the held task was created.
	Created broker.Revision `json:"created"`
	// Spec and Props are the values of the task's key and of its properties; nil means
	// no properties.
	Spec  json.RawMessage `json:"spec"`
	Props json.RawMessage `json:"props,omitempty"`
}

// FailureMark is the value of tasks/<task>/failed: the task has failed or was killed,
// and other tasks still wait for it.
type FailureMark struct {
	// State is the state that it ended in.
	State statemachine.State `json:"state"`
	// Skip is true if the tasks that wait for it are to be killed.
	Skip bool `json:"skip,omitempty"`
}

// ParseFailureMark parses a mark. A mark that cannot be parsed blocks.
func ParseFailureMark(value []byte) FailureMark {
	var m FailureMark
	if json.Unmarshal(value, &m) != nil {
		return FailureMark{State: statemachine.Failed}
	}
	return m
}

var errSubmittedMeanwhile = errors.New("the task was submitted again meanwhile")

// endRequeued ends the runs of tasks that are to be submitted again.
func (c *claims) endRequeued(ctx context.Context, endings []Ending, which []int, waiting []*broker.KV, results []Ended) {
	txns := make([]broker.Txn, len(which))
	for k, i := range which {
		results[i] = Ended{}
		txns[k], results[i].Requeued = c.requeueTxn(endings[i], waiting[k])
	}
	for k, r := range c.broker.Commit(ctx, txns...) {
		i := which[k]
		switch {
		case r.Err != nil:
			results[i] = Ended{Err: r.Err}
		case !r.OK:
			// The submission was replaced or deleted, or the claim is gone: another
			// attempt finds out.
			results[i] = Ended{Err: broker.NewError("end", c.space.Requeue(endings[i].ID), broker.ErrUnavailable, errSubmittedMeanwhile)}
		}
	}
}

// requeueTxn builds the transaction that ends a run and replaces the task by the
// waiting submission. If that cannot be parsed, or was for another task with the ID,
// the task ends and the submission is deleted with it.
func (c *claims) requeueTxn(e Ending, waiting *broker.KV) (txn broker.Txn, requeues bool) {
	var next Requeue
	if json.Unmarshal(waiting.Value, &next) != nil || next.Created != e.Created || !bytes.HasPrefix(next.Spec, []byte("{")) {
		txn = c.endTxn(e)
		for i := range txn.If {
			if txn.If[i] == broker.Absent(waiting.Key) {
				txn.If[i] = broker.Modified(waiting.Key, waiting.Modified)
			}
		}
		txn.Then = append(txn.Then, broker.Delete(waiting.Key))
		return txn, false
	}
	txn = c.endTxn(Ending{Ref: e.Ref, Kind: Discard, Command: e.Command})
	props := broker.Delete(c.space.Props(e.ID))
	if len(next.Props) > 0 {
		props = broker.Put(c.space.Props(e.ID), next.Props)
	}
	if e.Command == 0 {
		txn.Then = append(txn.Then, broker.Delete(c.space.TaskCommand(e.ID)))
	}
	txn.If = append(txn.If, broker.Modified(waiting.Key, waiting.Modified))
	txn.Then = append(txn.Then, broker.Put(c.space.Task(e.ID), next.Spec), props,
		broker.Delete(waiting.Key), broker.Delete(c.space.Owner(e.ID)), broker.Delete(c.space.Claim(e.ID)),
		broker.Delete(c.space.Handover(e.ID)), broker.Delete(c.space.State(e.ID)), broker.Delete(c.space.Progress(e.ID)))
	return txn, true
}

// Skips reports whether a failure mark says that the waiting tasks are to be killed.
func Skips(mark []byte) bool { return ParseFailureMark(mark).Skip }
