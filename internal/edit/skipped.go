package edit

import (
	"context"
	"fmt"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/subtree"
)

// refuseSkipped refuses tasks that have ended and would be killed at once if they ran again, because a
// task that they need, and that is not to run again with them, has failed and skips them.
func (b *Batch) refuseSkipped(ctx context.Context) {
	var again []*Task
	together, outside := map[string]bool{}, map[string]error{}
	for _, t := range b.open {
		if t.Ended != 0 {
			again, together[t.ID] = append(again, t), true
		}
	}
	if len(again) == 0 {
		return
	}
	var txns []broker.Txn
	var read []string
	needs := make([][]string, len(again))
	for n, t := range again {
		needs[n], t.Err = subtree.Expand(ctx, b.broker, b.space, t.blockers())
		for _, need := range needs[n] {
			if _, known := outside[need]; !known && !together[need] {
				outside[need], read = nil, append(read, need)
				txns = append(txns, broker.Txn{Then: []broker.Op{broker.Read(b.space.Task(need)), broker.Read(b.space.Failed(need))}})
			}
		}
	}
	for i, r := range b.broker.Commit(ctx, txns...) {
		if outside[read[i]] = r.Err; r.Err == nil && r.Reads[0] == nil && r.Reads[1] != nil {
			if mark := coordinator.ParseFailureMark(r.Reads[1].Value); mark.Skip {
				outside[read[i]] = fmt.Errorf("%w: it would be killed at once, since %q is %s; run that again as well", ErrUnmetNeed, read[i], mark.State)
			}
		}
	}
	for n, t := range again {
		for _, need := range needs[n] {
			if err := outside[need]; err != nil && t.Err == nil {
				t.Err = fmt.Errorf("%s task %q: %w", t.verb(), t.ID, err)
			}
		}
	}
	b.keepOpen()
}
