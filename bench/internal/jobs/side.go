package jobs

import (
	"context"
	"time"
)

// The systems.
const (
	systemWindlass = "windlass"
	systemRiver    = "river"
	systemAsynq    = "asynq"
)

// side is one of those that are compared.
type side struct {
	name, settings string
	// missing says what has to be installed for it, nothing if all is there.
	missing func() string
	// open starts its store in a folder that does not exist yet.
	open func(ctx context.Context, dir string) (store, error)
	// alone tells of a store that needs no workers: it completes what it is given.
	alone bool
}

// store is a store of jobs in which nothing is. Its methods are for one goroutine.
type store interface {
	// order is what the workers are told, but for their names.
	order() order
	// enqueue submits n jobs that do nothing, the first one with a number that
	// no earlier one had, and returns when all are acknowledged.
	enqueue(ctx context.Context, first, n int) error
	// settled returns when all that the workers have said to be done is, and when
	// that was; zero where they say it only then.
	settled(ctx context.Context) (time.Time, error)
	// pids are the processes of the store.
	pids() []int
	close() error
}

// worker is a store that needs no workers.
type worker interface {
	// completed is how many jobs are, and when the last one was.
	completed() (int, time.Time)
}

// The names of the sides.
const (
	SideWindlass      = "Windlass"
	SideWindlassTuned = "Windlass, tuned"
	SideBare          = "etcd, bare"
	SideRiver         = "River"
	SideRiverTuned    = "River, tuned"
	SideAsynq         = "asynq, always"
	SideAsynqRelaxed  = "asynq, everysec"
)

// collector is the environment of the Go programs of the sides that are tuned: their
// garbage collector runs a quarter as often, and they take more memory for that.
const collector = "GOGC=400"

// sides are all of them, our own first.
var sides = []side{windlassSide, windlassTunedSide, bareSide, riverSide, riverTunedSide, asynqSide, asynqRelaxedSide}
