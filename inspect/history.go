package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/statemachine"
)

// History returns the history of a task, its latest statemachine.HistoryMax entries, or
// windlass.ErrNotFound if there is none. Nodes write history only when they have nothing else to
// do, so it may lag by a moment, and by up to some seconds while many tasks are being
// claimed. Entries that a node had not written when it died are missing.
func (i *Inspector) History(ctx context.Context, id string) (statemachine.History, error) {
	if err := keys.CheckTaskID(id); err != nil {
		return statemachine.History{}, err
	}
	kv, err := i.broker.Get(ctx, i.space.History(id))
	if errors.Is(err, broker.ErrNotFound) {
		return statemachine.History{}, fmt.Errorf("history of task %q: %w", id, windlass.ErrNotFound)
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

// Interruptions returns how many claims of tasks have ended without the handler or a
// command requesting it (statemachine.History), by task ID. Tasks that were never
// interrupted are omitted. It reads the whole history of each task.
func (i *Inspector) Interruptions(ctx context.Context, ids ...string) (map[string]int, error) {
	interrupted := map[string]int{}
	for part := range slices.Chunk(ids, interruptionsBatch) {
		txns := make([]broker.Txn, len(part))
		for n, id := range part {
			if err := keys.CheckTaskID(id); err != nil {
				return nil, err
			}
			txns[n] = broker.Txn{Then: []broker.Op{broker.Read(i.space.History(id))}}
		}
		for n, r := range i.broker.Commit(ctx, txns...) {
			switch {
			case r.Err != nil:
				return nil, fmt.Errorf("history of task %q: %w", part[n], r.Err)
			case r.Reads[0] == nil:
				continue
			}
			h, err := statemachine.ParseHistory(r.Reads[0].Value)
			if err != nil {
				return nil, fmt.Errorf("history of task %q: %w", part[n], err)
			}
			if h.Interruptions > 0 {
				interrupted[part[n]] = h.Interruptions
			}
		}
	}
	return interrupted, nil
}

// interruptionsBatch is how many histories are read at once. Each has some KiB.
const interruptionsBatch = 500
