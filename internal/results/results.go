// Package results reads the results that tasks have left, and distinguishes a task without a
// result from one that is no longer stored.
package results

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/statemachine"
)

// Read returns the results of tasks, by ID, and the IDs of those of which nothing is kept,
// sorted: they are not live and have left no state in which they ended. It reads one key of
// each task, and more only of those that may be missing.
func Read(ctx context.Context, b broker.Broker, space keys.Space, ids []string) (found map[string]json.RawMessage, missing []string, err error) {
	for _, id := range ids {
		if err := keys.CheckTaskID(id); err != nil {
			return nil, nil, err
		}
	}
	found = make(map[string]json.RawMessage, len(ids))
	doubtful, err := look(ctx, b, ids, found, func(id string) []string { return []string{space.State(id)} })
	if err != nil || len(doubtful) == 0 {
		return found, nil, err
	}
	// One of them may be live, or may have ended since: its state is read again, in one
	// transaction with the keys by which a task exists.
	missing, err = look(ctx, b, doubtful, found, func(id string) []string {
		return []string{space.State(id), space.Task(id), space.Props(id)}
	})
	slices.Sort(missing)
	return found, slices.Compact(missing), err
}

// look reads the keys of each task, the first of which is its state, and adds its result to
// found. It returns the tasks that have not ended and have no other key.
func look(ctx context.Context, b broker.Broker, ids []string, found map[string]json.RawMessage, keysOf func(id string) []string) (doubtful []string, err error) {
	txns := make([]broker.Txn, len(ids))
	for i, id := range ids {
		for _, key := range keysOf(id) {
			txns[i].Then = append(txns[i].Then, broker.Read(key))
		}
	}
	for i, r := range b.Commit(ctx, txns...) {
		if r.Err != nil {
			return nil, fmt.Errorf("result of task %q: %w", ids[i], r.Err)
		}
		kept := slices.ContainsFunc(r.Reads[1:], func(kv *broker.KV) bool { return kv != nil })
		if kv := r.Reads[0]; kv != nil {
			record, err := statemachine.Parse(kv.Value)
			if err != nil {
				return nil, fmt.Errorf("result of task %q: %w", ids[i], err)
			}
			if record.Result != nil {
				found[ids[i]] = record.Result
			}
			kept = kept || record.Result != nil || record.State.Terminal()
		}
		if !kept {
			doubtful = append(doubtful, ids[i])
		}
	}
	return doubtful, nil
}
