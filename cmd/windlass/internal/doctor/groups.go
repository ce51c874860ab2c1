package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/view"
)

// spreadWithin is for how long nodes spread groups after one has joined.
const spreadWithin = 5 * time.Minute

// unspread returns the groups that moves would spread more evenly, unless the nodes may be about
// to make these moves.
func (d *Doctor) unspread(ctx context.Context, s *snapshot, now time.Time) ([]inspect.Spread, error) {
	grouped := slices.ContainsFunc(s.claimed(), func(t *mirror.Task) bool { return t.Exists() && s.spec(t).Group != "" })
	young := slices.ContainsFunc(s.registered(), func(n *node) bool { return now.Sub(n.info.StartedAt) < spreadWithin })
	if !grouped || young || len(s.registered()) < 2 {
		return nil, nil
	}
	client, err := windlass.NewClient(d.Broker, d.Space.Root())
	if err != nil {
		return nil, err
	}
	plan, err := inspect.New(client).Plan(ctx, func(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error) { return nodes, nil })
	if err != nil {
		return nil, fmt.Errorf("see where groups are: %w", err)
	}
	return slices.DeleteFunc(plan.UnspreadBefore, func(g inspect.Spread) bool {
		return slices.ContainsFunc(plan.UnspreadAfter, func(still inspect.Spread) bool { return still.Group == g.Group })
	}), nil
}

// noteGroups reports groups that are not spread.
func noteGroups(n *notes, groups []inspect.Spread) {
	for _, g := range groups {
		n.add(Warning, "group(s) of tasks that are not spread over zones and nodes as they could be",
			`"windlass node balance", told to all nodes, spreads them; "windlass plan" shows the moves`, view.GroupSpread(g))
	}
}
