package simulation

import (
	"context"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
)

// crowd is a coordinator that makes every task which waits for others wait for many that
// do not exist as well. The claim has conditions for those, and is checked after the
// grant for the others.
type crowd struct{ coordinator.Coordinator }

// absent are as many tasks as a claim can have conditions for.
var absent = func() (ids []string) {
	for i := range broker.TxnOpsMax / 2 {
		ids = append(ids, fmt.Sprint("absent-", i))
	}
	return ids
}()

// Claim implements coordinator.Coordinator.
func (c crowd) Claim(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
	wanted = slices.Clone(wanted)
	for i, w := range wanted {
		if len(w.Blockers) > 0 {
			wanted[i].Blockers = slices.Concat(absent, w.Blockers)
		}
	}
	return c.Coordinator.Claim(ctx, wanted)
}
