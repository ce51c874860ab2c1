package windlass

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/returns"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
)

// Client submits, inspects and controls tasks and nodes; it runs nothing. Its methods
// are safe for concurrent use. Broker errors are passed on as those of package broker.
// If the namespace's layout is newer than this version supports, a client writes
// nothing and returns ErrLayout.
type Client struct {
	broker broker.Broker
	space  keys.Space
	// layoutRead is when the layout was last read and found to be supported.
	layoutRead atomic.Pointer[time.Time]
	// tracer is nil for none.
	tracer Tracer
	// copy answers lists; nil means that the broker does.
	copy *TaskCopy
	// silence tells which nodes are not renewed.
	silence session.Silence
}

// ClientOption is an option of NewClient.
type ClientOption func(*Client)

// WithTracer makes a client record spans of submissions and of detached claims.
func WithTracer(t Tracer) ClientOption { return func(c *Client) { c.tracer = t } }

// NewClient returns a client for a namespace; an empty one means NamespaceDefault. The
// client does not close the broker.
func NewClient(b broker.Broker, namespace string, options ...ClientOption) (*Client, error) {
	if b == nil {
		return nil, badInput("broker", "", "must be set")
	}
	if namespace == "" {
		namespace = NamespaceDefault
	}
	space, err := keys.New(namespace)
	if err != nil {
		return nil, badName(err)
	}
	c := &Client{broker: b, space: space}
	for _, option := range options {
		option(c)
	}
	return c, nil
}

// Delete removes a task with its properties and its pending command, and a job from the
// tree. Its state stays. A running handler is stopped, and its node gives the claim up
// only when the handler has returned. A task that is submitted under the same ID does
// not run before that. The task's history names who deleted it (WithCaller), if it has
// ever been claimed. What waits for the task does not wait any more, and runs if nothing else
// keeps it: Delete does not look for that. Delete returns ErrNotFound if no such task is live.
func (c *Client) Delete(ctx context.Context, id string) error {
	if err := keys.CheckTaskID(id); err != nil {
		return badName(err)
	}
	if err := c.checkLayout(ctx); err != nil {
		return fmt.Errorf("delete task %q: %w", id, err)
	}
	var tried broker.Cond // identifies the task that an attempt may have deleted
	for attempt := range attemptsMax {
		txn, found, err := c.deletion(ctx, id, attempt < attemptsMax/2)
		if err != nil {
			return fmt.Errorf("delete task %q: %w", id, err)
		}
		if tried.Key != "" && !slices.Contains(txn.If, tried) {
			return nil
		}
		if !found {
			return c.notDeletable(ctx, id)
		}
		r, maybe, err := c.persist(ctx, txn)
		if err != nil {
			return fmt.Errorf("delete task %q: %w", id, err)
		}
		if r.OK {
			return nil
		}
		if maybe {
			if tried = txn.If[0]; tried.Kind != broker.CondCreated {
				tried = txn.If[1]
			}
		}
	}
	return fmt.Errorf("delete task %q: it changes too often", id)
}

// notDeletable returns the error for a task that is not live: ErrNotFound, with what is left
// of it.
func (c *Client) notDeletable(ctx context.Context, id string) error {
	err := fmt.Errorf("task %q: %w", id, ErrNotFound)
	if kv, readErr := c.broker.Get(ctx, c.space.State(id)); readErr == nil {
		if record, parseErr := statemachine.Parse(kv.Value); parseErr == nil && record.State.Terminal() {
			err = fmt.Errorf("%w among the live tasks: it is %s, and to be forgotten by pruning", err, record.State)
		}
	}
	return err
}

// deletion reads a task and builds the transaction that deletes exactly that task. If
// it is applied late, it must not affect another task that was submitted under the same
// ID since. With note it notes who deletes it, which fails if the history is written
// meanwhile.
func (c *Client) deletion(ctx context.Context, id string, note bool) (txn broker.Txn, found bool, err error) {
	task, props, owner := c.space.Task(id), c.space.Props(id), c.space.Owner(id)
	read := []broker.Op{
		broker.Read(task), broker.Read(props), broker.Read(owner),
	}
	by := callerOf(ctx)
	if note = note && by != ""; note {
		read = append(read, broker.Read(c.space.History(id)))
	}
	r, err := broker.CommitOne(ctx, c.broker, broker.Txn{Then: read})
	if err != nil {
		return broker.Txn{}, false, err
	}
	// A task exists by its own key or, in the older form, by its properties.
	for i, key := range []string{task, props} {
		if kv := r.Reads[i]; kv == nil {
			txn.If = append(txn.If, broker.Absent(key))
		} else {
			txn.If = append(txn.If, broker.Created(key, kv.Created))
			found = true
		}
	}
	txn.Then = []broker.Op{
		broker.Delete(task), broker.Delete(props), broker.Delete(c.space.TaskCommand(id)), broker.Delete(c.space.Progress(id)),
		broker.Delete(c.space.Requeue(id)), broker.Delete(c.space.Handover(id)),
	}
	if keys.CheckJobID(id) == nil {
		txn.Then = append(txn.Then, broker.Delete(c.space.Job(id)))
	}
	if kv := r.Reads[2]; kv != nil && kv.Session == 0 {
		// In the oldest form a claim belongs to no session, and nobody gives it up.
		txn.If = append(txn.If, broker.Created(owner, kv.Created))
		txn.Then = append(txn.Then, broker.Delete(owner), broker.Delete(c.space.Claim(id)))
	}
	if note {
		if value, ok := noted(r.Reads[3], r.Reads[2], "delete, by "+by, 0); ok {
			txn.If = append(txn.If, broker.Modified(r.Reads[3].Key, r.Reads[3].Modified))
			txn.Then = append(txn.Then, broker.Put(r.Reads[3].Key, value))
		}
	}
	return txn, found, nil
}

// Send sends a command to a node, which carries its commands out in the order in which
// they were sent. It returns ErrNotFound if the node is not there.
func (c *Client) Send(ctx context.Context, node string, command Command) error {
	if err := keys.CheckNodeName(node); err != nil {
		return badName(err)
	}
	if err := checkCommand(command); err != nil {
		return err
	}
	value, err := json.Marshal(command)
	if err != nil {
		return badInput("parameters", string(command.Parameters), "must be valid JSON")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("send a command: %w", err)
	}
	if err := c.checkLayout(ctx); err != nil {
		return fmt.Errorf("send a command to node %q: %w", node, err)
	}
	key, cordon := c.space.NodeCommand(node, id.String()), c.space.NodeCordon(node)
	for range attemptsMax {
		r, err := broker.CommitOne(ctx, c.broker, broker.Txn{Then: []broker.Op{broker.Read(c.space.NodeInfo(node)), broker.Read(cordon)}})
		if err != nil {
			return fmt.Errorf("send a command to node %q: %w", node, err)
		}
		info := r.Reads[0]
		if info == nil {
			break
		}
		// The command lives with the node's session: it is lost when the node goes.
		txn := broker.Txn{
			If:   []broker.Cond{broker.Created(info.Key, info.Created), broker.Absent(key)},
			Then: []broker.Op{broker.PutSession(key, value, info.Session)},
		}
		if command.Command == CommandDrain && r.Reads[1] == nil {
			txn.If = append(txn.If, broker.Absent(cordon))
			txn.Then = append(txn.Then, putReason(ctx, cordon, "drained"))
		}
		r, maybe, err := c.persist(ctx, txn)
		switch {
		case err != nil && !errors.Is(err, broker.ErrSessionExpired):
			return fmt.Errorf("send a command to node %q: %w", node, err)
		case err == nil && (r.OK || maybe):
			return nil
		}
	}
	return fmt.Errorf("node %q: %w", node, ErrNotFound)
}

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
	b, err := loadTaskIndex(ctx, c.broker, c.space)
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
		broker.Read(c.space.State(id)), broker.Read(c.space.Claim(id)), broker.Read(c.space.TaskCommand(id)),
	}}
	if keys.CheckJobID(id) == nil {
		txn.Then = append(txn.Then, broker.Read(c.space.Job(id)))
	}
	r, err := broker.CommitOne(ctx, c.broker, txn)
	if err != nil {
		return TaskDetail{}, fmt.Errorf("task %q: %w", id, err)
	}
	b := newTaskIndex(c.space)
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
	d := detail(info, r.Reads)
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

// NodeStatus is a node in a list. Its JSON is stable.
type NodeStatus struct {
	Name string `json:"name"`
	// Tasks is the number of tasks it holds.
	Tasks    int  `json:"tasks"`
	Frozen   bool `json:"frozen"`
	Draining bool `json:"draining"`
	// Cordon is set if it is kept from getting tasks until Client.Uncordon.
	Cordon   *Cordon           `json:"cordon,omitempty"`
	Zone     string            `json:"zone"`
	Labels   map[string]string `json:"labels"`
	Capacity int               `json:"capacity"`
	// Weight is its share of the work relative to other nodes; 0 means that the node is
	// too old to report it.
	Weight int `json:"weight,omitempty"`
	// Load is the load that it last published, in hundredths. An Overloaded node keeps
	// what it has and claims nothing.
	Load       int  `json:"load,omitempty"`
	Overloaded bool `json:"overloaded,omitempty"`
	// Behind is a lower bound of the greatest lag with which the node saw the changes
	// of others within the last half minute, as a duration such as "4s", a power of
	// two. It is empty below a second. While it lags, a node claims nothing that
	// another node should have.
	Behind string `json:"behind,omitempty"`
	// SlowRenewal is how long the slowest renewal of its session within the last ten
	// minutes took, as a duration such as "1.5s". It is empty if each took less than a
	// quarter of session.Timing.Try. Nodes publish it up to a minute later.
	SlowRenewal string `json:"slow_renewal,omitempty"`
	// ShortLived lists the types whose tasks this node found to end about as soon as
	// they begin.
	ShortLived []string `json:"short_lived,omitempty"`
	// A Returning node is being stopped, or is away, and intends to come back.
	Returning bool `json:"returning,omitempty"`
	// AwayUntil is set for a node that is gone and is to be back by then. Tasks counts what the
	// others keep for it, and the rest is as it was. One that is late stays in the list for some
	// minutes.
	AwayUntil time.Time `json:"away_until,omitzero"`
	// SilentSince is when its session was last renewed, by its own clock, if that is longer ago
	// than its TTL: its process is dead or cut off, and nobody has ended the session yet. If two
	// clocks say so, a second look a few seconds later tells. It is zero on a store that ends
	// sessions by itself.
	SilentSince time.Time `json:"silent_since,omitzero"`
	// Probation is set while the node is given nothing because it has died repeatedly:
	// until then, or until no other node takes tasks.
	Probation  time.Time `json:"probation,omitzero"`
	StartedAt  time.Time `json:"started_at"`
	SessionTTL string    `json:"session_ttl"`
	Version    string    `json:"version"`
	// Types lists the task types that the node has handlers for.
	Types []string `json:"types"`
	// Pulls lists the types that it takes only on request. Limits is its concurrency
	// limit by type.
	Pulls  []string       `json:"pulls,omitempty"`
	Limits map[string]int `json:"limits,omitempty"`
	// Incarnation identifies the node's current session.
	Incarnation string `json:"incarnation"`
	// Host is the machine it runs on. LogDir is the directory there in which it keeps
	// the output of tasks.
	Host   string `json:"host"`
	LogDir string `json:"log_dir"`
	// Problem is set if its registration cannot be read, and says why.
	Problem string `json:"problem,omitempty"`
}

// Nodes returns the registered nodes and those that are away and are to be back, sorted by name.
func (c *Client) Nodes(ctx context.Context) ([]NodeStatus, error) {
	nodes, err := listNodes(ctx, c.broker, c.space)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	kvs, revision, err := broker.Collect(ctx, c.broker, c.space.Tasks())
	if err != nil {
		return nil, fmt.Errorf("list nodes: count their tasks: %w", err)
	}
	tasks := mirror.NewTasks(c.space, mirror.Keep{})
	tasks.Reset(&mirror.Snapshot{KVs: kvs, Revision: revision})
	silent, err := c.silence.Of(ctx, c.broker, c.space.Sessions())
	if err != nil {
		return nil, fmt.Errorf("list nodes: see who is renewed: %w", err)
	}
	return nodeStatuses(nodes, tasks, func(n *mirror.Node) time.Time { return silent[n.Session] }), nil
}

// nodeStatuses returns the nodes that are there and those that are away, by name. silent returns
// since when a node is not renewed.
func nodeStatuses(nodes *mirror.Nodes, tasks *mirror.Tasks, silent func(n *mirror.Node) time.Time) []NodeStatus {
	list := []NodeStatus{}
	for _, n := range nodes.Registered() {
		list = append(list, nodeStatus(n, tasks.Owned(n.Name), silent(n)))
	}
	for _, n := range nodes.Away() {
		if p, err := returns.Parse(n.Return.Value, ReturnWithinMax, time.Now()); err == nil {
			away := nodeStatus(&mirror.Node{Name: n.Name, Info: p.Info}, tasks.Kept(n.Name), time.Time{})
			away.Returning, away.AwayUntil = true, p.Until
			list = append(list, away)
		}
	}
	slices.SortFunc(list, func(a, b NodeStatus) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

func nodeStatus(n *mirror.Node, tasks int, silent time.Time) NodeStatus {
	var i NodeInfo
	problem := ""
	if err := json.Unmarshal(n.Info, &i); err != nil {
		problem = "unreadable registration: " + err.Error()
	}
	s := NodeStatus{
		Name: n.Name, Tasks: tasks, Frozen: i.Frozen, Draining: i.Draining, Zone: i.Zone, Labels: i.Labels,
		Cordon: cordonOf(n), Capacity: i.Capacity, Weight: i.Weight, Load: i.Load, Overloaded: i.Overloaded, Behind: i.Behind,
		SlowRenewal: i.SlowRenewal, ShortLived: i.ShortLived, Returning: i.Returning, SilentSince: silent, Probation: i.Probation,
		StartedAt: i.StartedAt, SessionTTL: i.SessionTTL, Version: i.Version, Types: i.Types, Pulls: i.Pulls, Limits: i.Limits,
		Incarnation: i.Incarnation, Host: i.Host, LogDir: i.LogDir, Problem: problem,
	}
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	if s.Types == nil {
		s.Types = []string{}
	}
	return s
}

// Progress returns what the task's last Claim.Checkpoint saved, as JSON; nil if there
// is none.
func (c *Client) Progress(ctx context.Context, id string) (json.RawMessage, error) {
	if err := keys.CheckTaskID(id); err != nil {
		return nil, badName(err)
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
