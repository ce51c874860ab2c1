package windlass

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/mirror"
)

// Limits of Retry.Deaths.
const (
	// DeathsDefault is how many deaths set a task aside by default.
	DeathsDefault = deaths.CountDefault
	// DeathsMax is the maximum of Retry.Deaths.
	DeathsMax = deaths.CountMax
)

// Deaths returns the deaths of nodes within the last hour, the latest first.
func (c *Client) Deaths(ctx context.Context) ([]events.Death, error) {
	nodes, err := listNodes(ctx, c.broker, c.space)
	if err != nil {
		return nil, fmt.Errorf("list the deaths of nodes: %w", err)
	}
	return recordedDeaths(nodes), nil
}

// recordedDeaths returns the deaths that a copy has and that still count, the latest
// first.
func recordedDeaths(nodes *mirror.Nodes) []events.Death {
	recorded := []events.Death{}
	nodes.Deaths(func(node, incarnation string, kv broker.KV) {
		if d, ok := deaths.Parse(node, incarnation, kv); ok && time.Since(d.At) < deaths.Window {
			recorded = append(recorded, d)
		}
	})
	slices.SortFunc(recorded, func(a, b events.Death) int { return b.At.Compare(a.At) })
	return recorded
}

// deathsLimit returns how many deaths set a task aside; zero means that no number does.
func (s *Spec) deathsLimit() int {
	switch {
	case s.Retry == nil || s.Retry.Deaths == 0:
		return DeathsDefault
	case s.Retry.Deaths < 0:
		return 0
	}
	return s.Retry.Deaths
}
