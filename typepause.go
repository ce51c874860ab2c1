package windlass

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
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

// PauseType keeps the tasks of a type from running, on all nodes, until the type is resumed, or gives its pause another reason, of at most
// SuspensionReasonBytesMax. Nodes stop the handlers of its tasks, with the cause
// ErrTypePaused, and store that the tasks are paused; those that are submitted or wake up
// later are paused before they run. Their nodes keep them. A task that is with a caller of
// Client.DequeueDetached stays there, and no further one is handed out. The type need not
// be known.
//
// PauseType returns when the pause is stored. The handlers have returned once none of the
// type's tasks is StatusRunning. A node that is cut off from the broker stops its
// handlers when its session ends.
func (c *Client) PauseType(ctx context.Context, taskType, reason string) error {
	if err := checkReason(reason); err != nil {
		return err
	}
	return c.changePause(ctx, "pause", taskType, suspend(ctx, c.space.TypePause(taskType), reason))
}

// ResumeType ends the pause of a type: the tasks that are paused because of it run again,
// where they are. Those that were paused by themselves stay paused. It returns ErrNotFound
// if the type is not paused.
func (c *Client) ResumeType(ctx context.Context, taskType string) error {
	return c.changePause(ctx, "resume", taskType, broker.Delete(c.space.TypePause(taskType)))
}

func (c *Client) changePause(ctx context.Context, what, taskType string, op broker.Op) error {
	if taskType != "" {
		if err := keys.CheckType(taskType); err != nil {
			return err
		}
	}
	_, err := c.change(ctx, op, c.space.TypePauseAttempt(taskType), op.Key)
	switch {
	case errors.Is(err, ErrNotFound):
		return fmt.Errorf("%s type %q: it is not paused: %w", what, taskType, err)
	case err != nil:
		return fmt.Errorf("%s type %q: %w", what, taskType, err)
	}
	return nil
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
			all[taskType] = &TypeStatus{Type: taskType, Tasks: map[Status]int{}, Nodes: []string{}, Pause: pauseOf(nodes, taskType)}
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

// PausedTypes returns the types that are paused. It reads no tasks.
func (c *Client) PausedTypes(ctx context.Context) (map[string]Suspension, error) {
	nodes, err := mirror.ListNodes(ctx, c.broker, c.space)
	if err != nil {
		return nil, fmt.Errorf("list paused types: %w", err)
	}
	paused := map[string]Suspension{}
	for taskType := range nodes.Paused() {
		paused[taskType] = *pauseOf(nodes, taskType)
	}
	return paused, nil
}

// typesOf returns the types that a node runs or pulls.
func typesOf(n *mirror.Node) []string {
	s := nodeStatus(n, 0, time.Time{})
	return slices.Concat(s.Types, s.Pulls)
}

// pauseOf returns the pause of a type, nil for none. An unreadable one is a pause.
func pauseOf(nodes *mirror.Nodes, taskType string) *Suspension {
	value, there := nodes.Paused()[taskType]
	if !there {
		return nil
	}
	return ParseSuspension(value)
}
