package windlass

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/returns"
)

// NodeStatus is a node in a list. Its JSON is stable. A Returning one is being stopped, or is away, and is to be back.
type NodeStatus struct {
	NodeInfo
	// Tasks is the number of tasks that it holds, or that the others keep for it.
	Tasks int `json:"tasks"`
	// Cordon is set if it is kept from getting tasks until operate.Operator.Uncordon.
	Cordon *Suspension `json:"cordon,omitempty"`
	// AwayUntil is set for a node that is gone and is to be back by then. Tasks counts what the
	// others keep for it, and the rest is as it was. One that is late stays in the list for some
	// minutes.
	AwayUntil time.Time `json:"away_until,omitzero"`
	// SilentSince is when its session was last renewed, by its own clock, if that is longer ago
	// than its TTL: its process is dead or cut off, and nobody has ended the session yet. If two
	// clocks say so, a second look a few seconds later tells. It is zero on a store that ends
	// sessions by itself.
	SilentSince time.Time `json:"silent_since,omitzero"`
	// Problem is set if its registration cannot be read, and says why.
	Problem string `json:"problem,omitempty"`
}

// Nodes returns the registered nodes and those that are away and are to be back, sorted by name.
func (c *Client) Nodes(ctx context.Context) ([]NodeStatus, error) {
	nodes, err := mirror.ListNodes(ctx, c.broker, c.space)
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
	s := NodeStatus{Tasks: tasks, Cordon: ParseSuspension(n.Cordon, n.Cordoned), SilentSince: silent}
	if err := json.Unmarshal(n.Info, &s.NodeInfo); err != nil {
		s.Problem = "unreadable registration: " + err.Error()
	}
	if s.Name = n.Name; s.Labels == nil {
		s.Labels = map[string]string{}
	}
	if s.Types == nil {
		s.Types = []string{}
	}
	return s
}
