package windlass

import (
	"fmt"
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

// countActive keeps count of the runs whose handlers have not returned, by type.
// Those that sleep or are paused do not count: they are not in the way of others.
func (in *incarnation) countActive(r *run) {
	active := in.runs[r.claim.id] == r && (r.phase == phaseRunning || r.phase == phaseStopping)
	switch {
	case active == r.active:
	case active:
		in.fleet.Active(r.class().Type, 1)
	default:
		in.fleet.Active(r.class().Type, -1)
		in.board.RoomChanged()
	}
	r.active = active
}
