package windlass

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
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
}

// Matches tells whether a task is selected.
func (f Filter) Matches(t TaskInfo) bool {
	return (len(f.Types) == 0 || slices.Contains(f.Types, t.Type)) &&
		(len(f.Statuses) == 0 || slices.Contains(f.Statuses, t.Status)) &&
		(len(f.Nodes) == 0 || slices.Contains(f.Nodes, t.Node)) &&
		strings.HasPrefix(t.ID, f.IDPrefix)
}

// Tasks lists the selected tasks, live and done, sorted by ID.
func (c *Client) Tasks(ctx context.Context, f Filter) ([]TaskInfo, error) {
	b := newBoard(c.space)
	if err := b.load(ctx, c.broker); err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	var infos []TaskInfo
	for info := range b.all(time.Now()) {
		if f.Matches(info) {
			infos = append(infos, info)
		}
	}
	slices.SortFunc(infos, func(a, b TaskInfo) int { return strings.Compare(a.ID, b.ID) })
	return infos, nil
}

// Count counts the selected tasks by status.
func (c *Client) Count(ctx context.Context, f Filter) (map[Status]int, error) {
	infos, err := c.Tasks(ctx, f)
	if err != nil {
		return nil, err
	}
	counts := make(map[Status]int, len(Statuses))
	for _, info := range infos {
		counts[info.Status]++
	}
	return counts, nil
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
	snapshot := &mirror.Snapshot{Revision: r.Revision}
	for i, kv := range r.Reads {
		if kv == nil {
			continue
		}
		if i < 3 {
			snapshot.KVs = append(snapshot.KVs, *kv)
		} else {
			b.set(broker.Event{KV: *kv})
		}
	}
	b.tasks.Reset(snapshot)
	if err := b.readBlockers(ctx, c.broker, id); err != nil {
		return TaskDetail{}, fmt.Errorf("task %q: %w", id, err)
	}
	info, ok := b.info(id, time.Now())
	if !ok {
		return TaskDetail{}, fmt.Errorf("task %q: %w", id, ErrNotFound)
	}
	return b.detail(info, r.Reads[0], r.Reads[1]), nil
}

// board puts together what is stored about tasks in different places.
type board struct {
	space  keys.Space
	tasks  *mirror.Tasks
	states map[string][]byte
	claims map[string][]byte
}

func newBoard(space keys.Space) *board {
	return &board{space: space, tasks: mirror.NewTasks(space, mirror.Keep{}), states: map[string][]byte{}, claims: map[string][]byte{}}
}

// load reads everything. The tasks come first: one that is done in between is
// then found in the states.
func (b *board) load(ctx context.Context, store broker.Broker) error {
	source := func(prefix string, take func([]broker.KV, broker.Revision)) error {
		kvs, revision, err := broker.Collect(ctx, store, prefix)
		if err == nil {
			take(kvs, revision)
		}
		return err
	}
	set := func(kvs []broker.KV, _ broker.Revision) {
		for _, kv := range kvs {
			b.set(broker.Event{KV: kv})
		}
	}
	return errors.Join(
		source(b.space.Tasks(), func(kvs []broker.KV, revision broker.Revision) {
			b.tasks.Reset(&mirror.Snapshot{KVs: kvs, Revision: revision})
		}),
		source(b.space.Claims(), set),
		source(b.space.States(), set),
	)
}

// readBlockers reads which blockers of one task exist.
func (b *board) readBlockers(ctx context.Context, store broker.Broker, id string) error {
	t := b.tasks.Get(id)
	if t == nil || t.Owned() {
		return nil
	}
	spec, err := parseSpec(t.Spec())
	if err != nil {
		return nil // reported as the task's error
	}
	var txns []broker.Txn
	for _, blocker := range depend.Blockers(id, spec.Needs) {
		txns = append(txns, broker.Txn{Then: []broker.Op{broker.Read(b.space.Task(blocker)), broker.Read(b.space.Failed(blocker))}})
	}
	if len(txns) == 0 {
		return nil
	}
	batch := broker.Batch{}
	for _, r := range store.Commit(ctx, txns...) {
		if r.Err != nil {
			return r.Err
		}
		for _, kv := range r.Reads {
			if kv != nil {
				batch.Events = append(batch.Events, broker.Event{KV: *kv})
			}
		}
	}
	b.tasks.Apply(batch)
	return nil
}

// set takes a change of a state or of the record of a claim, and returns whose.
func (b *board) set(e broker.Event) string {
	p := b.space.Parse(e.KV.Key)
	into := map[keys.Kind]map[string][]byte{keys.State: b.states, keys.Claim: b.claims}[p.Kind]
	switch {
	case into == nil:
		return ""
	case e.Deleted:
		delete(into, p.Name)
	default:
		into[p.Name] = e.KV.Value
	}
	return p.Name
}

// all yields every task, live and done.
func (b *board) all(now time.Time) iter.Seq[TaskInfo] {
	return func(yield func(TaskInfo) bool) {
		for t := range b.tasks.All() {
			if info, ok := b.info(t.ID, now); ok && !yield(info) {
				return
			}
		}
		for id := range b.states {
			if b.tasks.Get(id) != nil {
				continue
			}
			if info, ok := b.info(id, now); ok && !yield(info) {
				return
			}
		}
	}
}

// info describes one task; false if there is none. The state that a deleted
// task left behind is none.
func (b *board) info(id string, now time.Time) (TaskInfo, bool) {
	t := b.tasks.Get(id)
	record, err := statemachine.Parse(b.states[id])
	if t == nil && !record.State.Terminal() {
		return TaskInfo{}, false
	}
	info := TaskInfo{ID: id, BlockedBy: []string{}, Errors: record.Errors, Until: record.Until}
	if info.Errors == nil {
		info.Errors = []statemachine.ErrorEntry{}
	}
	if err != nil {
		info.Errors = append(info.Errors, statemachine.ErrorEntry{Timestamp: now.UTC(), Error: "unreadable " + err.Error()})
	}
	if record.State.Terminal() {
		info.Type, info.Priority, info.SubmittedAt = record.Type, record.Priority, record.SubmittedAt
		info.Node, info.Token, info.ClaimedAt = record.Node, record.Token, record.ClaimedAt
		info.Status, info.FinishedAt = Status(record.State), record.ChangedAt
		return info, true
	}
	b.live(&info, t, record, err != nil, now)
	return info, true
}

func (b *board) live(info *TaskInfo, t *mirror.Task, record statemachine.Record, unreadable bool, now time.Time) {
	spec, err := parseSpec(t.Spec())
	if err != nil {
		unreadable = true
		info.Errors = append(info.Errors, statemachine.ErrorEntry{Timestamp: now.UTC(), Error: "unreadable " + err.Error()})
	}
	info.Type, info.Priority, info.Weight, info.NotBefore = spec.Type, spec.Priority, spec.Weight, spec.NotBefore
	if !spec.SubmittedAt.IsZero() {
		info.SubmittedAt = &spec.SubmittedAt
	}
	if t.Owned() {
		info.Node, info.Token = t.Owner, int64(t.Token)
		var claimed coordinator.Record
		if json.Unmarshal(b.claims[t.ID], &claimed) == nil && !claimed.ClaimedAt.IsZero() {
			info.ClaimedAt = &claimed.ClaimedAt
		}
	}
	for _, blocker := range depend.Blockers(t.ID, spec.Needs) {
		o := b.tasks.Remains(blocker)
		if t.Owned() || !blocks(o) {
			continue
		}
		info.BlockedBy = append(info.BlockedBy, blocker)
		if !o.HasKey {
			info.FailedNeeds = append(info.FailedNeeds, blocker)
		}
	}
	switch {
	case unreadable || record.State == statemachine.Fault:
		info.Status = StatusFault
	case record.State == statemachine.Sleeping:
		info.Status = StatusSleeping
	case record.State == statemachine.Paused:
		info.Status = StatusPaused
	case t.Owned() && (t.Created <= t.Token || t.Session == 0):
		info.Status = StatusRunning // otherwise an older run of its ID has not returned yet
	case len(info.BlockedBy) > 0:
		info.Status = StatusBlocked
	default:
		info.Status = StatusPending
	}
}

// detail adds what only one task at a time is asked for.
func (b *board) detail(info TaskInfo, task, props *broker.KV) TaskDetail {
	d := TaskDetail{TaskInfo: info}
	if task != nil {
		if spec, err := parseSpec(task.Value); err == nil {
			d.Spec = &spec
		}
	}
	if props != nil && json.Valid(props.Value) && len(bytes.TrimSpace(props.Value)) > 0 {
		d.Props = props.Value
	}
	if raw := b.states[info.ID]; raw != nil {
		if record, err := statemachine.Parse(raw); err == nil {
			d.State, d.Result = &record, record.Result
		}
	}
	return d
}
