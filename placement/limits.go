package placement

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// typed counts the tasks of each node by type; nil for nodes without limits.
type typed []map[string]int

// typedOf counts the tasks that the nodes hold.
func typedOf(nodes []Node, held *Tally) typed {
	t := make(typed, len(nodes))
	for i := range nodes {
		if len(nodes[i].Limits) == 0 {
			continue
		}
		t[i] = map[string]int{}
		for c, n := range held.Of(nodes[i].Name).Classes {
			t[i][c.Type] += n
		}
	}
	return t
}

// Full returns why a node takes no more tasks of a class's type, even if it has room
// for others; empty if it does.
func (n *Node) Full(c *Class, held Holding) string {
	most, ok := n.Limit(c.Type)
	if !ok {
		return ""
	}
	has := 0
	for other, tasks := range held.Classes {
		if other.Type == c.Type {
			has += tasks
		}
	}
	if has < most {
		return ""
	}
	return fmt.Sprintf("it holds %d tasks of type %q and runs at most %d at a time", has, c.Type, most)
}

func (t typed) add(node int, taskType string, tasks int) {
	if t[node] != nil {
		t[node][taskType] += tasks
	}
}

// room returns how many more tasks of a type a node takes.
func (t typed) room(nodes []Node, node int, taskType string) int {
	most, ok := nodes[node].Limit(taskType)
	if !ok {
		return math.MaxInt
	}
	return max(most-t[node][taskType], 0)
}

func (t typed) clone() typed {
	c := slices.Clone(t)
	for i := range c {
		c[i] = maps.Clone(c[i])
	}
	return c
}
