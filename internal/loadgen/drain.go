package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/windlass-go/windlass"
)

// drainParameters ask for the highest rate that there is, so that what is measured
// is not the pace.
var drainParameters = json.RawMessage(`{"per_second":100000}`)

// drainPhase drains a node, and stops it.
func (b *bench) drainPhase(ctx context.Context) error {
	if err := b.calm(ctx); err != nil {
		return err
	}
	live := b.fleet.live()
	victim := live[len(live)-1]
	name, held := nodeName(victim.number), b.ledger.running[victim.number]
	b.progress("drain: draining node %s of %d tasks", name, held)
	began := time.Now()
	err := b.within(ctx, "the command drain to be sent", func(ctx context.Context) error {
		return b.client.Send(ctx, name, windlass.Command{Command: windlass.CommandDrain, Parameters: drainParameters})
	})
	if err != nil {
		return err
	}
	err = b.settle(ctx, fmt.Sprintf("all tasks of node %s to run elsewhere", name), func(counts []int) bool {
		return b.allRun(counts) && counts[len(counts)-1] == 0 // the last live one is drained
	})
	if err != nil {
		return err
	}
	left, err := b.claimsOf(ctx, name)
	if err != nil {
		return err
	}
	if err := b.within(ctx, "the drained node to end", func(ctx context.Context) error { return b.fleet.stop(ctx, victim) }); err != nil {
		return err
	}
	moved, idle := moves(b.ledger.starts())
	b.figure(PhaseDrain, "tasks moved", float64(len(moved)), unitTasks).against(limitMoves, float64(held))
	b.figure(PhaseDrain, "tasks left behind", float64(left), unitTasks)
	b.figure(PhaseDrain, "drained", perSecond(len(moved), lastStart(moved).Sub(began)), unitRate).
		against(limitClaims, b.limits.claimsPerSecond)
	b.reportGaps(PhaseDrain, idle)
	b.reportPlacement(PhaseDrain)
	b.curve(PhaseDrain, began, line{from: held, perSecond: b.limits.claimsPerSecond})
	return nil
}

// claimsOf is how many tasks the broker says that a node holds.
func (b *bench) claimsOf(ctx context.Context, name string) (tasks int, err error) {
	err = b.within(ctx, "the nodes to be listed", func(ctx context.Context) error {
		nodes, err := b.client.Nodes(ctx)
		for _, n := range nodes {
			if n.Name == name {
				tasks = n.Tasks
			}
		}
		return err
	})
	return tasks, err
}

// reportGaps reports for how long tasks that moved did not run.
func (b *bench) reportGaps(phase string, idle spread) {
	b.figure(phase, "gap of a moved task, median", milliseconds(idle.median()), unitMilliseconds).
		against(limitPut, milliseconds(b.limits.put.median()))
	b.figure(phase, "gap of a moved task, p99", milliseconds(idle.p99()), unitMilliseconds)
	b.figure(phase, "gap of a moved task, max", milliseconds(idle.max()), unitMilliseconds)
}
