package windlass

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/listing"
	"github.com/windlass-go/windlass/statemachine"
)

// Status is a task's status, as shown in lists.
type Status string

// The statuses.
const (
	// StatusPending: no node holds it.
	StatusPending Status = "pending"
	// StatusBlocked: it waits for another task to be done.
	StatusBlocked Status = "blocked"
	// StatusRunning: a node holds it.
	StatusRunning Status = "running"
	// StatusSleeping: it runs again at a set time.
	StatusSleeping Status = "sleeping"
	// StatusPaused: it runs again when a command tells it to.
	StatusPaused Status = "paused"
	// StatusFault: it ended with an error, or cannot be read.
	StatusFault Status = "fault"
	// StatusCompleted: it is done.
	StatusCompleted Status = "completed"
	// StatusFailed: it failed for good.
	StatusFailed Status = "failed"
	// StatusKilled: it was ended by a command.
	StatusKilled Status = "killed"
)

// Statuses lists every Status.
var Statuses = []Status{StatusPending, StatusBlocked, StatusRunning, StatusSleeping, StatusPaused, StatusFault,
	StatusCompleted, StatusFailed, StatusKilled}

// Tasks returns the selected tasks, live and done, sorted by ID. A negative limit is a
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

// Count counts the selected tasks by status, ignoring a limit.
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

// eachTask passes the selected tasks to take, by ID, until it returns false.
func (c *Client) eachTask(ctx context.Context, f Filter, take func(TaskInfo) bool) error {
	r := listing.Range{Prefix: f.IDPrefix, After: f.After, AllBlockers: f.AllBlockers}
	each := func(t *listing.Task) bool {
		info := infoOf(t)
		return !f.Matches(info) || take(info)
	}
	if c.copy != nil {
		if c.copy.Each(ctx, r, each) {
			return nil
		}
		over, err := c.copy.Alone(ctx)
		if err != nil {
			return fmt.Errorf("list tasks: %w", err)
		}
		defer over()
	}
	all, err := listing.Load(ctx, c.broker, c.space, readListed)
	if err != nil {
		return fmt.Errorf("list tasks: %w", err)
	}
	all.Each(r, each)
	return nil
}

// Task returns everything about one task, or ErrNotFound.
func (c *Client) Task(ctx context.Context, id string) (TaskDetail, error) {
	if err := keys.CheckTaskID(id); err != nil {
		return TaskDetail{}, err
	}
	txn := broker.Txn{Then: []broker.Op{
		broker.Read(c.space.Task(id)), broker.Read(c.space.Props(id)), broker.Read(c.space.Owner(id)),
		broker.Read(c.space.State(id)), broker.Read(c.space.Claim(id)), broker.Read(c.space.TaskCommand(id)),
	}}
	if keys.CheckJobID(id) == nil {
		txn.Then = append(txn.Then, broker.Read(c.space.Job(id)))
	}
	r, err := broker.CommitOne(ctx, c.broker, txn)
	if err != nil {
		return TaskDetail{}, fmt.Errorf("task %q: %w", id, err)
	}
	all := listing.NewIndex(c.space, readListed)
	for _, kv := range r.Reads {
		if kv != nil {
			all.Set(broker.Event{KV: *kv})
		}
	}
	if err := all.ReadBlockers(ctx, c.broker, id); err != nil {
		return TaskDetail{}, fmt.Errorf("task %q: %w", id, err)
	}
	listed, ok := all.Task(id, time.Now())
	if !ok {
		return TaskDetail{}, fmt.Errorf("task %q: %w", id, ErrNotFound)
	}
	d := detail(infoOf(&listed), r.Reads)
	if owner := r.Reads[2]; owner != nil && owner.Session != 0 {
		silent, err := c.silence.Of(ctx, c.broker, c.space.Sessions(), owner.Session)
		if err != nil {
			return TaskDetail{}, fmt.Errorf("task %q: see whether its holder is renewed: %w", id, err)
		}
		d.SilentSince = silent[owner.Session]
	}
	return d, nil
}

// detail adds the fields that are read for one task at a time only.
func detail(info TaskInfo, read []*broker.KV) TaskDetail {
	d := TaskDetail{TaskInfo: info}
	task, props, state, command := read[0], read[1], read[3], read[5]
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
			if s, err := submittedAs(info.ID, record, read[6:]); err == nil && task == nil && record.State.Terminal() {
				d.Spec, d.Props = &s.Spec, s.Props
			}
			record.Spec, record.Props = nil, nil
		}
	}
	if command != nil {
		if sent, err := statemachine.ParseCommand(command.Value); err == nil { // its node says that of one that cannot be read
			d.Command = &sent
		}
	}
	return d
}

// Wait waits until a task has one of the statuses, and then returns it. What a node holds
// that is silent (TaskDetail.SilentSince) has none. If the task ends with another status,
// Wait returns a *FinishedError; if it is deleted, ErrNotFound.
func (c *Client) Wait(ctx context.Context, id string, statuses ...Status) (TaskDetail, error) {
	if len(statuses) == 0 {
		return TaskDetail{}, badInput("statuses", "", "at least one must be given")
	}
	var d TaskDetail
	what := fmt.Sprintf("wait for task %q", id)
	err := look(ctx, what, func() (done bool, err error) {
		now, err := c.Task(ctx, id)
		if err != nil {
			return false, err
		}
		d = now
		switch {
		case !d.SilentSince.IsZero(): // what its holder last said of it need not be so any more
			return false, nil
		case (Filter{Statuses: statuses}).Matches(d.TaskInfo):
			return true, nil
		case statemachine.State(d.Status).Terminal():
			return false, fmt.Errorf("%s: %w", what, &FinishedError{ID: id, State: statemachine.State(d.Status)})
		}
		return false, nil
	})
	return d, err
}

// Progress returns what the task's last Claim.Checkpoint saved, as JSON; nil if there
// is none.
func (c *Client) Progress(ctx context.Context, id string) (json.RawMessage, error) {
	if err := keys.CheckTaskID(id); err != nil {
		return nil, err
	}
	kv, err := c.broker.Get(ctx, c.space.Progress(id))
	return progressIn(id, kv, err)
}

// progressIn returns a task's progress from the result of a Get of its key.
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
