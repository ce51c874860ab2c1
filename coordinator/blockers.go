package coordinator

import (
	"context"

	"github.com/windlass-go/windlass/broker"
)

// waits returns the blockers for which the claim has conditions, as many as fit into
// its transaction, and the others.
func (w Wanted) waits() (conditions, others []string) {
	if w.Skipped != "" || w.Command != 0 {
		return nil, nil
	}
	own := 2 // that the task exists and has no owner
	if w.PropsOnly {
		own++
	}
	n := min(len(w.Blockers), (broker.TxnOpsMax-own)/2)
	return w.Blockers[:n], w.Blockers[n:]
}

// gone returns the conditions that a task does not exist and blocks nothing.
func (c *claims) gone(id string) []broker.Cond {
	return []broker.Cond{broker.Absent(c.space.Task(id)), broker.Absent(c.space.Failed(id))}
}

// check looks for the blockers for which granted claims had no condition. To look after
// the grant is as good as a condition: a blocker that was there at the grant, and is not
// now, has ended in between, before any handler begins.
func (c *claims) check(ctx context.Context, wanted []Wanted, results []Result) {
	var txns []broker.Txn
	var claim []int // of each transaction
	for i, w := range wanted {
		_, others := w.waits()
		if results[i].Err != nil {
			continue
		}
		for ; len(others) > 0; others = others[min(len(others), broker.TxnOpsMax/2):] {
			var txn broker.Txn
			for _, b := range others[:min(len(others), broker.TxnOpsMax/2)] {
				txn.If = append(txn.If, c.gone(b)...)
			}
			txns, claim = append(txns, txn), append(claim, i)
		}
	}
	if len(txns) == 0 {
		return
	}
	for k, r := range c.broker.Commit(ctx, txns...) {
		if r.Err != nil || !r.OK {
			results[claim[k]].Blocked = true
		}
	}
}
