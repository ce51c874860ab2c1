package attempts

import (
	"context"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
)

// End ends a claim, and tries again while the outcome is unknown or the error is temporary.
func End(ctx context.Context, coord coordinator.Coordinator, e coordinator.Ending) coordinator.Ended {
	return EndAll(ctx, coord, []coordinator.Ending{e})[0]
}

// EndAll is End for several claims. It sets Again of the endings that it has tried again.
func EndAll(ctx context.Context, coord coordinator.Coordinator, endings []coordinator.Ending) []coordinator.Ended {
	results := make([]coordinator.Ended, len(endings))
	open := make([]int, len(endings)) // indexes
	for i := range open {
		open[i] = i
	}
	for attempt := 1; len(open) > 0; attempt++ {
		some := make([]coordinator.Ending, len(open))
		for n, i := range open {
			some[n] = endings[i]
		}
		var again []int
		for n, ended := range coord.End(ctx, some) {
			i := open[n]
			if results[i] = ended; ended.Err != nil && (broker.MaybeApplied(ended.Err) || broker.Temporary(ended.Err)) {
				endings[i].Again = endings[i].Again || broker.MaybeApplied(ended.Err)
				again = append(again, i)
			}
		}
		if open = again; len(open) > 0 && !PauseAfter(ctx, results[open[0]].Err, attempt) {
			break
		}
	}
	return results
}
