package windlass

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
)

// NodeStatus is a node in a list. Its JSON is stable.
type NodeStatus struct {
	Name string `json:"name"`
	// Tasks is how many it holds.
	Tasks    int               `json:"tasks"`
	Frozen   bool              `json:"frozen"`
	Draining bool              `json:"draining"`
	Zone     string            `json:"zone"`
	Labels   map[string]string `json:"labels"`
	Capacity int               `json:"capacity"`
	// Weight is its share of the work beside that of others; 0 is one that is too
	// old to say.
	Weight int `json:"weight,omitempty"`
	// Load is how much of it was used up when it last said so, in hundredths. An
	// Overloaded node keeps what it has and claims nothing.
	Load       int  `json:"load,omitempty"`
	Overloaded bool `json:"overloaded,omitempty"`
	// Behind is how late it saw what others do, at least, at some time within the last half
	// minute: a duration such as "4s", a power of two; empty below a second. While it is
	// behind it claims nothing that another node should have.
	Behind string `json:"behind,omitempty"`
	// ShortLived are types whose tasks end about as soon as they have begun, as it has found.
	ShortLived []string `json:"short_lived,omitempty"`
	// Returning nodes are being stopped and mean to come back.
	Returning  bool      `json:"returning,omitempty"`
	StartedAt  time.Time `json:"started_at"`
	SessionTTL string    `json:"session_ttl"`
	Version    string    `json:"version"`
	// Types are the task types it handles.
	Types []string `json:"types"`
	// Pulls are those that it takes on request, Limits how many of a type it runs
	// at a time.
	Pulls  []string       `json:"pulls,omitempty"`
	Limits map[string]int `json:"limits,omitempty"`
	// Incarnation names its present session.
	Incarnation string `json:"incarnation"`
	// Host is the machine it runs on, LogDir where it keeps the output of
	// tasks there.
	Host   string `json:"host"`
	LogDir string `json:"log_dir"`
	// Problem says that its registration cannot be read.
	Problem string `json:"problem,omitempty"`
}

// Nodes lists the registered nodes, sorted by name.
func (c *Client) Nodes(ctx context.Context) ([]NodeStatus, error) {
	kvs, revision, err := broker.Collect(ctx, c.broker, c.space.Nodes())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	nodes := mirror.NewNodes(c.space)
	nodes.Reset(&mirror.Snapshot{KVs: kvs, Revision: revision})
	kvs, revision, err = broker.Collect(ctx, c.broker, c.space.Tasks())
	if err != nil {
		return nil, fmt.Errorf("list nodes: count their tasks: %w", err)
	}
	tasks := mirror.NewTasks(c.space, mirror.Keep{})
	tasks.Reset(&mirror.Snapshot{KVs: kvs, Revision: revision})
	list := []NodeStatus{}
	for _, n := range nodes.Registered() {
		list = append(list, nodeStatus(n, tasks.Owned(n.Name)))
	}
	return list, nil
}

// NodeChange is a node that joined or changed, or that is gone.
type NodeChange struct {
	Node NodeStatus
	// Gone tells that the node left; only its name is set then.
	Gone bool
	// Revision is that of the store at which the watch knew of it; as in TaskChange.
	Revision int64
}

// WatchNodes yields the registered nodes as they are, sorted by name, and then
// every change, that of the number of their tasks included, until ctx is done or
// the caller stops. A broker that goes away yields its error, and the watch goes
// on when it is back; the caller may stop instead.
func (c *Client) WatchNodes(ctx context.Context) iter.Seq2[NodeChange, error] {
	return func(yield func(NodeChange, error) bool) {
		nodes, tasks := mirror.NewNodes(c.space), mirror.NewTasks(c.space, mirror.Keep{})
		shown := map[string]NodeStatus{}
		sources := []mirror.Source{{Prefix: c.space.Nodes()}, {Prefix: c.space.Tasks(), Strip: tasks.Strip}}
		c.follow(ctx, sources, func(u sourced, complete bool) bool {
			switch {
			case u.Err != nil:
				return yield(NodeChange{}, fmt.Errorf("watch nodes: %w", u.Err))
			case u.source == 0 && u.Snapshot != nil:
				nodes.Reset(u.Snapshot)
			case u.source == 0:
				nodes.Apply(u.Batch)
			case u.Snapshot != nil:
				tasks.Reset(u.Snapshot)
			default:
				tasks.Apply(u.Batch)
			}
			return !complete || showNodes(nodes, tasks, shown, int64(u.revision()), yield)
		})
	}
}

// showNodes yields what differs from what was shown.
func showNodes(nodes *mirror.Nodes, tasks *mirror.Tasks, shown map[string]NodeStatus, at int64, yield func(NodeChange, error) bool) bool {
	there := map[string]bool{}
	for _, n := range nodes.Registered() {
		status := nodeStatus(n, tasks.Owned(n.Name))
		there[n.Name] = true
		if was, ok := shown[n.Name]; ok && reflect.DeepEqual(was, status) {
			continue
		}
		shown[n.Name] = status
		if !yield(NodeChange{Node: status, Revision: at}, nil) {
			return false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		if there[name] {
			continue
		}
		delete(shown, name)
		if !yield(NodeChange{Node: NodeStatus{Name: name}, Gone: true, Revision: at}, nil) {
			return false
		}
	}
	return true
}

func nodeStatus(n *mirror.Node, tasks int) NodeStatus {
	var i NodeInfo
	problem := ""
	if err := json.Unmarshal(n.Info, &i); err != nil {
		problem = "unreadable registration: " + err.Error()
	}
	s := NodeStatus{
		Name: n.Name, Tasks: tasks, Frozen: i.Frozen, Draining: i.Draining, Zone: i.Zone, Labels: i.Labels,
		Capacity: i.Capacity, Weight: i.Weight, Load: i.Load, Overloaded: i.Overloaded, Behind: i.Behind, ShortLived: i.ShortLived, Returning: i.Returning, StartedAt: i.StartedAt, SessionTTL: i.SessionTTL, Version: i.Version, Types: i.Types, Pulls: i.Pulls, Limits: i.Limits,
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
