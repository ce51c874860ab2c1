package loadgen

import (
	"context"
	"errors"
)

// joinPhase starts another node.
func (b *bench) joinPhase(ctx context.Context) error {
	if err := b.calm(ctx); err != nil {
		return err
	}
	needed := movesNeeded(append(pick(b.ledger.running, b.fleet.numbers()), 0))
	b.progress("join: starting another node, for %d tasks", needed)
	if err := b.nodes(ctx, len(b.fleet.live())+1); err != nil {
		return err
	}
	if err := b.settle(ctx, "all tasks to run evenly with the node that joined", b.allRunEvenly); err != nil {
		return err
	}
	live := b.fleet.live()
	joined := live[len(live)-1].joined
	even, ok := b.ledger.evenSince(b.fleet.numbers(), b.tasks.count)
	if !ok {
		return errors.New("the events of the nodes do not add up to an even fleet")
	}
	took := max(0, even.Sub(joined))
	if needed == 0 {
		took = 0 // it was even from the start
	}
	moved, idle := moves(b.ledger.starts())
	b.figure(PhaseJoin, "from joined to even", milliseconds(took), unitMilliseconds)
	b.figure(PhaseJoin, "tasks moved", float64(len(moved)), unitTasks).against(limitMoves, float64(needed))
	b.figure(PhaseJoin, "moved", perSecond(len(moved), took), unitRate).against(limitClaims, b.limits.claimsPerSecond)
	b.reportGaps(PhaseJoin, idle)
	b.reportPlacement(PhaseJoin)
	b.curve(PhaseJoin, joined, line{to: needed, perSecond: b.limits.claimsPerSecond})
	return nil
}
