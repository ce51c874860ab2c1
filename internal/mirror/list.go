package mirror

import (
	"context"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// ListNodes returns a copy of everything that is stored about nodes.
func ListNodes(ctx context.Context, b broker.Broker, space keys.Space) (*Nodes, error) {
	kvs, revision, err := broker.Collect(ctx, b, space.Nodes())
	if err != nil {
		return nil, err
	}
	nodes := NewNodes(space)
	nodes.Reset(&Snapshot{KVs: kvs, Revision: revision})
	return nodes, nil
}
