package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// Progress is what was saved by the last Claim.Checkpoint of a task, as JSON; nil
// if there is none.
func (c *Client) Progress(ctx context.Context, id string) (json.RawMessage, error) {
	if err := keys.CheckTaskID(id); err != nil {
		return nil, badName(err)
	}
	kv, err := c.broker.Get(ctx, c.space.Progress(id))
	return progressIn(id, kv, err)
}

// progressIn is the progress of a task in what a Get of its key has returned.
func progressIn(id string, kv broker.KV, err error) (json.RawMessage, error) {
	switch {
	case errors.Is(err, broker.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("progress of task %q: %w", id, err)
	case !json.Valid(kv.Value):
		return nil, fmt.Errorf("progress of task %q: what is stored is not JSON", id)
	}
	return kv.Value, nil
}
