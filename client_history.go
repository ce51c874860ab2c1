package windlass

import (
	"context"
	"errors"
	"fmt"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/statemachine"
)

// History returns what happened to a task, the latest
// statemachine.HistoryMax entries of it, or ErrNotFound if nothing did. Nodes
// write it down when they have nothing else to do, so it may be behind by a
// moment, and by up to some seconds while many tasks are being claimed. What a
// node that died had not written yet is missing.
func (c *Client) History(ctx context.Context, id string) (statemachine.History, error) {
	if err := keys.CheckTaskID(id); err != nil {
		return statemachine.History{}, badName(err)
	}
	kv, err := c.broker.Get(ctx, c.space.History(id))
	if errors.Is(err, broker.ErrNotFound) {
		return statemachine.History{}, fmt.Errorf("history of task %q: %w", id, ErrNotFound)
	}
	if err != nil {
		return statemachine.History{}, fmt.Errorf("history of task %q: %w", id, err)
	}
	h, err := statemachine.ParseHistory(kv.Value)
	if err != nil {
		return statemachine.History{}, fmt.Errorf("history of task %q: %w", id, err)
	}
	return h, nil
}
