package windlass

import (
	"context"
	"fmt"

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
	nodes, err := mirror.ListNodes(ctx, c.broker, c.space)
	if err != nil {
		return nil, fmt.Errorf("list the deaths of nodes: %w", err)
	}
	return deaths.Recorded(nodes), nil
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
