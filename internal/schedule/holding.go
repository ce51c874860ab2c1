package schedule

import (
	"maps"

	"github.com/windlass-go/windlass/placement"
)

// View returns the cluster for the planner. self is this node, open are the tasks that
// no node holds, by class, and shortLived the types whose tasks end about as soon as
// they have begun. It is valid until the next call.
func (f *Fleet) View(self placement.Node, open map[*placement.Class]int, shortLived map[string]bool) placement.View {
	v := placement.View{Nodes: f.Nodes(self), Held: &f.tally, Open: open, ShortLived: shortLived}
	for name, a := range f.away {
		if f.tally.Of(name).Tasks > 0 {
			v.Away = append(v.Away, a.Node)
		}
	}
	for i := range f.peers {
		if !f.peers[i].Draining {
			continue
		}
		for c, n := range f.tally.Of(f.peers[i].Name).Classes {
			if v.Leaving == nil {
				v.Leaving = map[*placement.Class]int{}
			}
			v.Leaving[c] += n
		}
	}
	return v
}

// Nodes returns the registered nodes for the planner, this one first. They are valid
// until the next call.
func (f *Fleet) Nodes(self placement.Node) []placement.Node {
	f.nodes[0] = f.limited(self)
	return f.nodes
}

// limited returns this node with the limits that its own planner uses. Claims that it
// holds but does not run do not count against them; other nodes cannot know of those.
func (f *Fleet) limited(self placement.Node) placement.Node {
	if len(f.config.Limits) == 0 {
		return self
	}
	limits, held := maps.Clone(f.config.Limits), map[string]int{}
	for c, tasks := range f.tally.Of(self.Name).Classes {
		held[c.Type] += tasks
	}
	for _, types := range []map[string]int{held, f.active} { // a task that is being stopped is not held for the planner
		for taskType := range types {
			if most, ok := f.limit(taskType); ok {
				limits[taskType] = held[taskType] + max(most-f.active[taskType]-f.claiming[taskType], 0)
			}
		}
	}
	self.Limits = limits
	return self
}

// Hold adds by tasks of a class to those that a node holds; by may be negative.
func (f *Fleet) Hold(node string, c *placement.Class, by int) { f.tally.Add(node, c, by) }

// Recount forgets what every node holds, so that all can be counted again.
func (f *Fleet) Recount() { f.tally = placement.Tally{} }

// HeldBy returns what a node holds. The caller must not modify it.
func (f *Fleet) HeldBy(node string) placement.Holding { return f.tally.Of(node) }

// Grouped reports whether any task that is held is in a group.
func (f *Fleet) Grouped() bool { return f.tally.Grouped() }

// Active adds by handlers of a type that have not returned. Handlers of sleeping or
// paused tasks have.
func (f *Fleet) Active(taskType string, by int) { f.active[taskType] += by }

// Claiming adds by claims in flight of a type.
func (f *Fleet) Claiming(taskType string, by int) { f.claiming[taskType] += by }

// UnderWay returns how many claims of a type are in flight.
func (f *Fleet) UnderWay(taskType string) int { return f.claiming[taskType] }

// limit returns how many tasks of a type this node runs at a time; false if there is no
// limit.
func (f *Fleet) limit(taskType string) (most int, ok bool) {
	return (&placement.Node{Limits: f.config.Limits}).Limit(taskType)
}

// Limited reports whether there is a limit on how many tasks of a type this node runs
// at a time.
func (f *Fleet) Limited(taskType string) bool {
	_, ok := f.limit(taskType)
	return ok
}

// MayStart reports whether this node may run one more task of a type.
func (f *Fleet) MayStart(taskType string) bool {
	most, ok := f.limit(taskType)
	return !ok || f.active[taskType] < most
}

// MayClaim reports whether this node may claim one more task of a type.
func (f *Fleet) MayClaim(taskType string) bool {
	most, ok := f.limit(taskType)
	return !ok || f.active[taskType]+f.claiming[taskType] < most
}
