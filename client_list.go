package windlass

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/statemachine"
)

// Status is what a task is doing, as people ask for it.
type Status string

// The statuses.
const (
	// StatusPending: nobody holds it.
	StatusPending Status = "pending"
	// StatusBlocked: it waits for another task to be done.
	StatusBlocked Status = "blocked"
	// StatusRunning: a node holds it.
	StatusRunning Status = "running"
	// StatusSleeping: it runs again at a time.
	StatusSleeping Status = "sleeping"
	// StatusPaused: it runs again when told to.
	StatusPaused Status = "paused"
	// StatusFault: it ended with an error, or cannot be read.
	StatusFault Status = "fault"
	// StatusCompleted: it is done.
	StatusCompleted Status = "completed"
	// StatusFailed: it was given up.
	StatusFailed Status = "failed"
	// StatusKilled: it was ended by command.
	StatusKilled Status = "killed"
)

// Statuses are all of them.
var Statuses = []Status{StatusPending, StatusBlocked, StatusRunning, StatusSleeping, StatusPaused, StatusFault,
	StatusCompleted, StatusFailed, StatusKilled}

// TaskInfo is a task in a list. Its JSON is stable.
type TaskInfo struct {
	ID     string `json:"id"`
	Type   string `json:"type"`
	Status Status `json:"status"`
	// Node holds the task, or held it last.
	Node string `json:"node"`
	// Token is the fencing token of that claim.
	Token       int64      `json:"token"`
	SubmittedAt *time.Time `json:"submitted_at"`
	ClaimedAt   *time.Time `json:"claimed_at"`
	Priority    int        `json:"priority"`
	// Weight is how much of a node's share and capacity it takes; 0 means 1, and
	// of a task that has ended that it is not known any more.
	Weight    int      `json:"weight,omitempty"`
	BlockedBy []string `json:"blocked_by"`
	// FailedNeeds are those of BlockedBy that have failed or were killed: it waits
	// until they are run again or forgotten.
	FailedNeeds []string                  `json:"failed_needs,omitempty"`
	Errors      []statemachine.ErrorEntry `json:"errors"`
	// Until is when a sleeping task runs again.
	Until *time.Time `json:"until,omitempty"`
	// NotBefore is the earliest time to start; until then the task is pending.
	NotBefore time.Time `json:"not_before,omitzero"`
	// FinishedAt is when it reached a terminal state.
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// TaskDetail is everything about one task. Its JSON is stable.
type TaskDetail struct {
	TaskInfo
	// Spec and Props are gone once the task is done.
	Spec  *Spec           `json:"spec"`
	Props json.RawMessage `json:"props"`
	// State is what is stored of its state, nil if nothing is.
	State *statemachine.Record `json:"state"`
	// Result is what its handler left, or left last.
	Result json.RawMessage `json:"result"`
}

// Filter selects tasks. The zero value selects all.
type Filter struct {
	// Types, Statuses and Nodes select what is in them; empty selects all.
	Types    []string
	Statuses []Status
	Nodes    []string
	// IDPrefix selects the IDs that begin with it.
	IDPrefix string
	// After selects the IDs that are greater, byte by byte: with the last ID of one list
	// and a Limit, it is the next page.
	After string
	// Limit is how many a list has at most; 0 for all. Watches take no notice of it.
	Limit int
}

// Matches tells whether a task is selected.
func (f Filter) Matches(t TaskInfo) bool {
	return (len(f.Types) == 0 || slices.Contains(f.Types, t.Type)) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, t.Status)) &&
		(len(f.Nodes) == 0 || slices.Contains(f.Nodes, t.Node)) &&
		strings.HasPrefix(t.ID, f.IDPrefix) && t.ID > f.After
}

// Tasks lists the selected tasks, live and done, sorted by ID. A negative limit is a
// *BadInputError.
func (c *Client) Tasks(ctx context.Context, f Filter) ([]TaskInfo, error) {
	if f.Limit < 0 {
		return nil, badInput("limit", f.Limit, "must not be negative")
	}
	infos := make([]TaskInfo, 0, min(f.Limit, 1024))
	err := c.eachTask(ctx, f, func(info TaskInfo) bool {
		infos = append(infos, info)
		return len(infos) != f.Limit
	})
	if err != nil {
		return nil, err
	}
	return infos, nil
}

// Count counts the selected tasks by status, without regard to a limit.
func (c *Client) Count(ctx context.Context, f Filter) (map[Status]int, error) {
	counts := make(map[Status]int, len(Statuses))
	err := c.eachTask(ctx, f, func(info TaskInfo) bool {
		counts[info.Status]++
		return true
	})
	if err != nil {
		return nil, err
	}
	return counts, nil
}

// eachTask hands the selected tasks to take, by ID, until it returns false.
func (c *Client) eachTask(ctx context.Context, f Filter, take func(TaskInfo) bool) error {
	if c.copy != nil {
		if c.copy.each(ctx, f, take) {
			return nil
		}
		over, err := c.copy.alone(ctx)
		if err != nil {
			return fmt.Errorf("list tasks: %w", err)
		}
		defer over()
	}
	b, err := loadBoard(ctx, c.broker, c.space)
	if err != nil {
		return fmt.Errorf("list tasks: %w", err)
	}
	b.each(slices.Sorted(b.ids()), f, take)
	return nil
}

// Task returns everything about one task, or ErrNotFound.
func (c *Client) Task(ctx context.Context, id string) (TaskDetail, error) {
	if err := keys.CheckTaskID(id); err != nil {
		return TaskDetail{}, badName(err)
	}
	txn := broker.Txn{Then: []broker.Op{
		broker.Read(c.space.Task(id)), broker.Read(c.space.Props(id)), broker.Read(c.space.Owner(id)),
		broker.Read(c.space.State(id)), broker.Read(c.space.Claim(id)),
	}}
	r, err := broker.CommitOne(ctx, c.broker, txn)
	if err != nil {
		return TaskDetail{}, fmt.Errorf("task %q: %w", id, err)
	}
	b := newBoard(c.space)
	for _, kv := range r.Reads {
		if kv != nil {
			b.set(broker.Event{KV: *kv})
		}
	}
	if err := b.readBlockers(ctx, c.broker, id); err != nil {
		return TaskDetail{}, fmt.Errorf("task %q: %w", id, err)
	}
	info, ok := b.info(id, time.Now())
	if !ok {
		return TaskDetail{}, fmt.Errorf("task %q: %w", id, ErrNotFound)
	}
	return detail(info, r.Reads[0], r.Reads[1], r.Reads[3]), nil
}

// detail adds what only one task at a time is asked for.
func detail(info TaskInfo, task, props, state *broker.KV) TaskDetail {
	d := TaskDetail{TaskInfo: info}
	if task != nil {
		if spec, err := parseSpec(task.Value); err == nil {
			d.Spec = &spec
		}
	}
	if props != nil && json.Valid(props.Value) && len(bytes.TrimSpace(props.Value)) > 0 {
		d.Props = props.Value
	}
	if state != nil {
		if record, err := statemachine.Parse(state.Value); err == nil {
			d.State, d.Result = &record, record.Result
		}
	}
	return d
}
