package windlass

import (
	"context"
	"fmt"

	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/pause"
)

// retain applies the retention for as long as this node leads the election about
// it, one node at a time doing so.
func (n *Node) retain(ctx context.Context, e *election.Election) {
	_ = e.Lead(ctx, func(ctx context.Context, _ election.Term) error {
		client, err := NewClient(n.config.Broker, n.config.Namespace)
		if err != nil {
			return err // cannot be: the node has the same configuration
		}
		for {
			if _, err := client.Prune(ctx, n.config.Retention, Filter{}, false); err != nil && ctx.Err() == nil {
				n.events.BrokerTrouble(fmt.Errorf("apply the retention: %w", err))
			}
			if !pause.For(ctx, RetentionEvery) {
				return context.Cause(ctx)
			}
		}
	}) // which ends when the node does
}
