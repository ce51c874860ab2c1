package windlass

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/windlass-go/windlass/internal/mirror"
)

// TypeStatus is a type of tasks in a list. Its JSON is stable.
type TypeStatus struct {
	Type string `json:"type"`
	// Pause is set while the type is paused.
	Pause *Suspension `json:"pause,omitempty"`
	// Tasks has the numbers of its tasks by status, ended ones included.
	Tasks map[Status]int `json:"tasks"`
	// Nodes lists the nodes that run it or pull it, by name, those for AnyType included.
	Nodes []string `json:"nodes"`
}

// Types returns the types that tasks have, that nodes have handlers for, or that are
// paused, by name.
func (c *Client) Types(ctx context.Context) ([]TypeStatus, error) {
	nodes, err := mirror.ListNodes(ctx, c.broker, c.space)
	if err != nil {
		return nil, fmt.Errorf("list types: %w", err)
	}
	all := map[string]*TypeStatus{}
	of := func(taskType string) *TypeStatus {
		if all[taskType] == nil {
			all[taskType] = &TypeStatus{Type: taskType, Tasks: map[Status]int{}, Nodes: []string{}, Pause: ParseSuspension(nodes.PauseOf(taskType))}
		}
		return all[taskType]
	}
	for taskType := range nodes.Paused() {
		of(taskType)
	}
	for _, n := range nodes.Registered() {
		for _, taskType := range typesOf(n) {
			if taskType != AnyType {
				of(taskType)
			}
		}
	}
	err = c.eachTask(ctx, Filter{}, func(t TaskInfo) bool {
		of(t.Type).Tasks[t.Status]++
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("list types: %w", err)
	}
	for _, n := range nodes.Registered() {
		types := typesOf(n)
		for name, t := range all {
			if slices.Contains(types, name) || slices.Contains(types, AnyType) {
				t.Nodes = append(t.Nodes, n.Name)
			}
		}
	}
	list := make([]TypeStatus, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		list = append(list, *all[name])
	}
	return list, nil
}

// typesOf returns the types that a node runs or pulls.
func typesOf(n *mirror.Node) []string {
	s := nodeStatus(n, 0, time.Time{})
	return slices.Concat(s.Types, s.Pulls)
}
