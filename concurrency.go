package windlass

import (
	"fmt"
	"maps"

	"github.com/windlass-go/windlass/placement"
)

// ConcurrencyMax bounds how many tasks of a type a node can be told to run at a
// time.
const ConcurrencyMax = 1_000_000

// checkConcurrency refuses bounds that cannot be kept.
func (c Config) checkConcurrency() error {
	for name, most := range c.Concurrency {
		switch {
		case most < 1 || most > ConcurrencyMax:
			return badInput("concurrency", fmt.Sprintf("%s=%d", name, most), fmt.Sprintf("must be from 1 to %d", ConcurrencyMax))
		case c.handler(name) == nil && name != AnyType:
			return badInput("concurrency", name, "there is no handler for this type")
		}
	}
	return nil
}

// concurrency is how many tasks of a type the node runs at a time; false for no
// bound.
func (c Config) concurrency(taskType string) (most int, ok bool) {
	if most, ok = c.Concurrency[taskType]; !ok {
		most, ok = c.Concurrency[AnyType]
	}
	return most, ok
}

// countActive keeps count of the runs whose handlers have not returned, by type.
// Those that sleep or are paused do not count: they are not in the way of others.
func (in *incarnation) countActive(r *run) {
	active := in.runs[r.claim.id] == r && (r.phase == phaseRunning || r.phase == phaseStopping)
	switch {
	case active == r.active:
	case active:
		in.active[r.class().Type]++
	default:
		in.active[r.class().Type]--
		in.roomChanged()
	}
	r.active = active
}

// roomChanged looks again at what no node had room for, if there is anything: a
// handler has returned here, which the mirror says later, or never.
func (in *incarnation) roomChanged() {
	if len(in.planning.nowhere) > 0 {
		in.planning.dirty = true
	}
}

// mayStart tells whether one more task of a type may run here.
func (in *incarnation) mayStart(taskType string) bool {
	most, ok := in.config.concurrency(taskType)
	return !ok || in.active[taskType] < most
}

// mayClaimOf tells whether one more task of a type may be claimed here.
func (in *incarnation) mayClaimOf(taskType string) bool {
	most, ok := in.config.concurrency(taskType)
	return !ok || in.active[taskType]+in.flying[taskType] < most
}

// selfPlaced is this node for its own planner. What it holds and does not run takes
// nothing of its concurrency, which other nodes do not know of it.
func (in *incarnation) selfPlaced() placement.Node {
	n := in.info.placed()
	if len(n.Limits) == 0 {
		return n
	}
	held := map[string]int{}
	for c, tasks := range in.tally.Of(n.Name).Classes {
		held[c.Type] += tasks
	}
	limits := maps.Clone(n.Limits)
	set := func(taskType string) {
		if most, ok := in.config.concurrency(taskType); ok {
			limits[taskType] = held[taskType] + max(most-in.active[taskType]-in.flying[taskType], 0)
		}
	}
	for taskType := range held {
		set(taskType)
	}
	for taskType := range in.active { // one that is being stopped is not held for the planner
		set(taskType)
	}
	n.Limits = limits
	return n
}
