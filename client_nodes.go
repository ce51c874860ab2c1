package windlass

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
)

// NodeStatus is a node in a list. Its JSON is stable.
type NodeStatus struct {
	Name string `json:"name"`
	// Tasks is how many it holds.
	Tasks      int               `json:"tasks"`
	Frozen     bool              `json:"frozen"`
	Draining   bool              `json:"draining"`
	Zone       string            `json:"zone"`
	Labels     map[string]string `json:"labels"`
	Capacity   int               `json:"capacity"`
	StartedAt  time.Time         `json:"started_at"`
	SessionTTL string            `json:"session_ttl"`
	Version    string            `json:"version"`
	// Types are the task types it handles.
	Types []string `json:"types"`
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
	tasks := mirror.NewTasks(c.space, false)
	tasks.Reset(&mirror.Snapshot{KVs: kvs, Revision: revision})
	list := []NodeStatus{}
	for _, n := range nodes.Registered() {
		list = append(list, nodeStatus(n, tasks.Owned(n.Name)))
	}
	return list, nil
}

func nodeStatus(n *mirror.Node, tasks int) NodeStatus {
	var i NodeInfo
	problem := ""
	if err := json.Unmarshal(n.Info, &i); err != nil {
		problem = "unreadable registration: " + err.Error()
	}
	s := NodeStatus{
		Name: n.Name, Tasks: tasks, Frozen: i.Frozen, Draining: i.Draining, Zone: i.Zone, Labels: i.Labels,
		Capacity: i.Capacity, StartedAt: i.StartedAt, SessionTTL: i.SessionTTL, Version: i.Version, Types: i.Types,
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
