package placement

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"weak"
)

// AnyType in Node.Types stands for every type.
const AnyType = "*"

// Class has everything about a task that decides where it may and should run. Most
// tasks of a cluster share few classes; Classes keeps one copy of each.
type Class struct {
	// Type names the handler.
	Type string
	// Weight is how much of a node's share the task takes. Zero counts as 1.
	Weight int
	// Require lists the labels that a node must have, Prefer those that it should have.
	// The label "zone" matches the node's zone if the node has no label of that name.
	Require, Prefer map[string]string
	// Node, if set, is the only node that may run the task.
	Node string
	// Group, if set, spreads the task: tasks of one group go to different zones and
	// nodes as far as there are any.
	Group string

	// pool identifies the classes that the same nodes can run and that weigh the same.
	pool string
}

// Classes keeps one copy of each class in use, so that classes can be compared and
// counted by their address. The zero value is ready to use. It is not safe for
// concurrent use.
type Classes struct {
	byKey map[string]weak.Pointer[Class]
	// sweepAt is the number of classes at which unused ones are dropped.
	sweepAt int
}

// Of returns the one copy of a class.
func (cs *Classes) Of(c Class) *Class {
	c.Weight = max(c.Weight, 1)
	c.pool = strings.Join([]string{c.Type, strconv.Itoa(c.Weight), c.Node, labels(c.Require)}, "\x00")
	key := strings.Join([]string{c.pool, labels(c.Prefer), c.Group}, "\x01")
	if known := cs.byKey[key].Value(); known != nil {
		return known
	}
	if len(cs.byKey) >= cs.sweepAt {
		cs.sweep()
	}
	cs.byKey[key] = weak.Make(&c)
	return &c
}

// sweep drops unused classes whenever there are twice as many as after the last time.
func (cs *Classes) sweep() {
	const few = 1000
	if cs.byKey == nil {
		cs.byKey = map[string]weak.Pointer[Class]{}
	}
	maps.DeleteFunc(cs.byKey, func(_ string, p weak.Pointer[Class]) bool { return p.Value() == nil })
	cs.sweepAt = max(2*len(cs.byKey), few)
}

// labels encodes a set of labels in a unique way.
func labels(set map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(set)) {
		b.WriteString(strconv.Quote(k) + "=" + strconv.Quote(set[k]) + ",")
	}
	return b.String()
}

// Node is what the planner knows of a node.
type Node struct {
	// Name is unique in the cluster.
	Name string
	// Types lists the types of task that it runs.
	Types []string
	// Pulls lists the types that it takes only on request. They are never planned for
	// it, whatever its Types are.
	Pulls []string
	// Zone is its zone, for the spread of groups.
	Zone string
	// Labels are what tasks can require or prefer.
	Labels map[string]string
	// Weight is its share of the work relative to the other nodes. Zero counts as 1.
	Weight int
	// Capacity limits the total weight of the tasks that it takes; zero means no limit.
	Capacity int
	// Limits limits how many tasks of each type it takes. The AnyType entry applies to
	// each type that is not listed. No entry means no limit.
	Limits map[string]int
	// Closed, if set, says why it currently takes no tasks: it is frozen, draining or
	// overloaded.
	Closed string
}

// Limit returns how many tasks of a type the node takes; false if there is no limit.
func (n *Node) Limit(taskType string) (most int, ok bool) {
	if most, ok = n.Limits[taskType]; !ok {
		most, ok = n.Limits[AnyType]
	}
	return most, ok
}

func (n *Node) weight() int { return max(n.Weight, 1) }

func (n *Node) label(name string) (string, bool) {
	value, ok := n.Labels[name]
	if !ok && name == "zone" && n.Zone != "" {
		return n.Zone, true
	}
	return value, ok
}

// Excludes returns the rule that keeps a node from ever running tasks of a class,
// whatever its load; empty if none does.
func (n *Node) Excludes(c *Class) string {
	if c.Node != "" && c.Node != n.Name {
		return "the task is pinned to node " + strconv.Quote(c.Node)
	}
	switch {
	case slices.Contains(n.Pulls, c.Type):
		return "it takes tasks of type " + strconv.Quote(c.Type) + " only when it asks for them"
	case !slices.Contains(n.Types, c.Type) && !slices.Contains(n.Types, AnyType):
		return "it has no handler for type " + strconv.Quote(c.Type)
	}
	if len(c.Require) == 0 {
		return "" // nearly always; this is called for each node and task
	}
	for _, k := range slices.Sorted(maps.Keys(c.Require)) {
		switch value, ok := n.label(k); {
		case !ok:
			return "it lacks the label " + k + "=" + c.Require[k]
		case value != c.Require[k]:
			return "its label is " + k + "=" + value + ", not " + c.Require[k]
		}
	}
	return ""
}

// Preferred counts the labels of a node that a class prefers.
func (n *Node) Preferred(c *Class) int {
	count := 0
	for k, want := range c.Prefer {
		if value, ok := n.label(k); ok && value == want {
			count++
		}
	}
	return count
}

func byName(a, b Node) int { return cmp.Compare(a.Name, b.Name) }
