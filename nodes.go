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

// NodeStatus is a node in a list. Its JSON is stable.
type NodeStatus struct {
	Name string `json:"name"`
	// Tasks is the number of tasks it holds.
	Tasks    int  `json:"tasks"`
	Frozen   bool `json:"frozen"`
	Draining bool `json:"draining"`
	// Cordon is set if it is kept from getting tasks until operate.Operator.Uncordon.
	Cordon   *Suspension       `json:"cordon,omitempty"`
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
