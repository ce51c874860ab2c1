package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/statemachine"
)

// Record is the value of claims/<task>. It is for information only; nothing is decided
// by it.
type Record struct {
	// ClaimedAt is when the claim was granted, by the node's clock.
	ClaimedAt time.Time `json:"claimed_at"`
	// Incarnation identifies the node's session.
	Incarnation string `json:"incarnation"`
	// Reason is why it was claimed.
	Reason string `json:"reason,omitempty"`
	// Restarts says how often the handler has started again what it runs, nil if never.
	Restarts *statemachine.Restarts `json:"restarts,omitempty"`
}

// ReasonDetached is the reason of a claim that belongs to a session of its own, which
// nobody renews, instead of a node's.
const ReasonDetached = "detached"

// AuditRecord is an audit record about a task.
type AuditRecord struct {
	// ID of the task.
	ID string
	// Token is the token of the claim that Claimed is about.
	Token broker.Revision
	// Claimed, if set, is the record of the claim. It is written only if the claim is
	// still held, and is deleted with it.
	Claimed *Record
	// History lists the entries to add to the task's history.
	History []statemachine.HistoryEntry
	// Fresh is true if, as far as is known, the task has no history yet, so that it
	// need not be read.
	Fresh bool
}

// ErrHistoryContended: others changed the task's history at every attempt to write it.
var ErrHistoryContended = errors.New("the history of the task keeps changing")

// historyRounds is how often a history is read again if somebody else has written it
// meanwhile: usually the node that held the task before.
const historyRounds = 4

// Audit implements Coordinator.
func (c *claims) Audit(ctx context.Context, records []AuditRecord) []error {
	errs := make([]error, len(records))
	found := make([]*broker.KV, len(records))
	var txns []broker.Txn
	var read, open []int
	for i, n := range records {
		if n.Fresh && n.Claimed == nil {
			open = append(open, i)
			continue
		}
		txn, err := c.recordTxn(n)
		txns, read = append(txns, txn), append(read, i)
		errs[i] = err
	}
	for k, r := range c.broker.Commit(ctx, txns...) {
		i := read[k]
		switch {
		case errs[i] != nil:
		case r.Err != nil:
			errs[i] = r.Err
		case len(records[i].History) > 0:
			found[i] = r.Reads[0]
			open = append(open, i)
		}
	}
	for range historyRounds {
		if len(open) > 0 {
			open = c.writeHistories(ctx, records, open, found, errs)
		}
	}
	for _, i := range open {
		errs[i] = ErrHistoryContended
	}
	return errs
}

// recordTxn builds the transaction that writes the record of a held claim and reads the
// history.
func (c *claims) recordTxn(n AuditRecord) (broker.Txn, error) {
	read := []broker.Op{broker.Read(c.space.History(n.ID))}
	if n.Claimed == nil {
		return broker.Txn{Then: read}, nil
	}
	record, err := json.Marshal(n.Claimed)
	if err != nil {
		return broker.Txn{Then: read}, err
	}
	return broker.Txn{
		If:   []broker.Cond{broker.Created(c.space.Owner(n.ID), n.Token)},
		Then: append(read, broker.PutSession(c.space.Claim(n.ID), record, c.Session)),
		Else: read,
	}, nil
}

// writeHistories makes one attempt at each history, and returns those that have changed
// meanwhile.
func (c *claims) writeHistories(ctx context.Context, records []AuditRecord, open []int, found []*broker.KV, errs []error) (again []int) {
	txns := make([]broker.Txn, 0, len(open))
	sent := open[:0]
	for _, i := range open {
		key := c.space.History(records[i].ID)
		h, err := statemachine.ParseHistory(value(found[i]))
		if err != nil {
			errs[i] = err // it stays as it is, for a person to repair
			continue
		}
		h.Add(records[i].History...)
		written, err := h.Encode()
		if err != nil {
			errs[i] = err
			continue
		}
		unchanged := broker.Absent(key)
		if found[i] != nil {
			unchanged = broker.Modified(key, found[i].Modified)
		}
		txns = append(txns, broker.Txn{
			If: []broker.Cond{unchanged}, Then: []broker.Op{broker.Put(key, written)}, Else: []broker.Op{broker.Read(key)},
		})
		sent = append(sent, i)
	}
	for k, r := range c.broker.Commit(ctx, txns...) {
		i := sent[k]
		switch {
		case r.Err != nil:
			errs[i] = r.Err
		case !r.OK:
			found[i] = r.Reads[0]
			again = append(again, i)
		}
	}
	return again
}
