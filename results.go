package windlass

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/statemachine"
)

// Results are what the handlers of other tasks have left as their results, by ID;
// of all tasks that this one has waited for if no ID is given. Tasks without a
// result are not among them.
func (c *Claim) Results(ctx context.Context, ids ...string) (map[string]json.RawMessage, error) {
	if len(ids) == 0 {
		ids = depend.Blockers(c.id, c.kind.Spec.Needs)
	}
	return readResults(ctx, c.in.config.Broker, c.in.node.space, ids)
}

// Results are what the handlers of tasks have left as their results, by ID. Tasks
// without a result are not among them.
func (c *Client) Results(ctx context.Context, ids ...string) (map[string]json.RawMessage, error) {
	return readResults(ctx, c.broker, c.space, ids)
}

func readResults(ctx context.Context, b broker.Broker, space keys.Space, ids []string) (map[string]json.RawMessage, error) {
	txns := make([]broker.Txn, len(ids))
	for i, id := range ids {
		if err := keys.CheckTaskID(id); err != nil {
			return nil, badName(err)
		}
		txns[i] = broker.Txn{Then: []broker.Op{broker.Read(space.State(id))}}
	}
	results := make(map[string]json.RawMessage, len(ids))
	for i, r := range b.Commit(ctx, txns...) {
		if r.Err != nil {
			return nil, fmt.Errorf("result of task %q: %w", ids[i], r.Err)
		}
		if r.Reads[0] == nil {
			continue
		}
		record, err := statemachine.Parse(r.Reads[0].Value)
		if err != nil {
			return nil, fmt.Errorf("result of task %q: %w", ids[i], err)
		}
		if record.Result != nil {
			results[ids[i]] = record.Result
		}
	}
	return results, nil
}
