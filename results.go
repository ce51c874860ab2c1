package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/results"
	"github.com/windlass-go/windlass/internal/stored"
	"github.com/windlass-go/windlass/internal/subtree"
)

// SetResult sets the result that is recorded when the handler returns: the JSON of v,
// at most ResultBytesMax, and less if the task is no job and its needs and properties are
// very large. The last call counts.
func (c *Claim) SetResult(v any) error {
	value, err := stored.Marshal(v)
	if err != nil {
		return fmt.Errorf("result of task %q: %w", c.ID(), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.kind.Spec.CheckResult(value, c.props); err != nil {
		return err
	}
	c.result = value
	return nil
}

// recordBytesMax limits the result, the needs and the properties of a task together. The
// rest of a value is for its errors and the rest of its spec.
const recordBytesMax = broker.ValueBytesMax - 64<<10

// CheckResult returns an error if a result of a task with this spec, and with properties, is too large or not
// JSON. All three are stored in one value when it ends, other than those of a job, which the tree has.
func (s Spec) CheckResult(result, props json.RawMessage) error {
	most := ResultBytesMax
	if !s.Job {
		most = min(most, recordBytesMax-s.needsBytes()-len(props))
	}
	switch n := len(result); {
	case n > most:
		return badInput("result", fmt.Sprintf("%d bytes", n), fmt.Sprintf("must be at most %d bytes of JSON", most))
	case n > 0 && !stored.Valid(result):
		return badInput("result", string(result), "must be valid JSON, in UTF-8")
	}
	return nil
}

func (c *Claim) takeResult() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result
}

// Results returns the results that handlers of other tasks left, by task ID. Without
// IDs it returns those of all tasks that this one has waited for. As in Spec.Needs, "|*"
// after the ID of a job stands for the jobs below it. Tasks without a result are
// omitted. Of the tasks of which nothing is kept it returns a *NotFoundError beside the
// results of the others. Retention and Client.Prune keep what a live task needs, but not
// what was deleted, never submitted, or forgotten before the task came.
func (c *Claim) Results(ctx context.Context, ids ...string) (map[string]json.RawMessage, error) {
	if len(ids) > 0 {
		return readResults(ctx, c.in.config.Broker, c.in.node.space, ids)
	}
	found, err := readResults(ctx, c.in.config.Broker, c.in.node.space, depend.Blockers(c.held.ID, c.kind.Spec.Needs))
	if lost, ok := errors.AsType[*NotFoundError](err); ok {
		// An ancestor that was never queued does not block, and has no result to lose.
		above := depend.Ancestors(c.held.ID)
		lost.IDs = slices.DeleteFunc(lost.IDs, func(id string) bool { return slices.Contains(above, id) })
		if len(lost.IDs) == 0 {
			return found, nil
		}
	}
	return found, err
}

// Results returns the results that the handlers of tasks left, by task ID. Tasks
// without a result are omitted. Of the tasks of which nothing is kept it returns a
// *NotFoundError beside the results of the others.
func (c *Client) Results(ctx context.Context, ids ...string) (map[string]json.RawMessage, error) {
	return readResults(ctx, c.broker, c.space, ids)
}

func readResults(ctx context.Context, b broker.Broker, space keys.Space, ids []string) (map[string]json.RawMessage, error) {
	for _, id := range ids {
		if job, all := depend.Tree(id); all {
			if err := keys.CheckJobID(job); err != nil {
				return nil, err
			}
		}
	}
	ids, err := subtree.Expand(ctx, b, space, ids)
	if err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	found, missing, err := results.Read(ctx, b, space, ids)
	switch {
	case err != nil:
		return nil, err
	case len(missing) > 0:
		return found, fmt.Errorf("results: %w", &NotFoundError{IDs: missing})
	}
	return found, nil
}
