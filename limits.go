package windlass

import (
	"time"

	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/schedule"
)

// Limits. Whatever is over one is refused with an error that names it.
const (
	// PropsBytesMax bounds a task's properties.
	PropsBytesMax = 256 << 10
	// PropsDepthMax bounds how deep they are nested: what shows them writes as many spaces in
	// front of each line.
	PropsDepthMax = 1000
	// ResultBytesMax bounds what a handler leaves as its result, as JSON.
	ResultBytesMax = 256 << 10
	// TypeBytesMax bounds the name of a type.
	TypeBytesMax = 128
	// NeedsMax bounds the tasks that one task waits for, its ancestors
	// included: a path of JobDepthMax levels.
	NeedsMax = kind.NeedsMax
	// JobDepthMax bounds the levels of the tree of jobs.
	JobDepthMax = keys.JobDepthMax
	// WeightMax bounds the weight of a task, and that of a node.
	WeightMax = 1000
	// LabelsMax bounds the labels that a task requires or prefers, and those of
	// a node.
	LabelsMax = 32
	// CapacityMax bounds the capacity of a node.
	CapacityMax = 1_000_000_000
	// ReturnWithinMax bounds for how long a node asks others to wait for it.
	ReturnWithinMax = 10 * time.Minute
	// TimeoutMax bounds the time for a run, and those of a retry policy.
	TimeoutMax = 100 * 365 * 24 * time.Hour
	// ProgressBytesMax bounds what a handler saves of its progress, as JSON.
	ProgressBytesMax = 256 << 10
	// PriorityMin and PriorityMax bound a priority.
	PriorityMin, PriorityMax = -1000, 1000
	// SubmitBatchMax bounds the tasks in one call of SubmitAll.
	SubmitBatchMax = 10_000
	// claimBatchMax bounds the claims, and the endings, in one call of the
	// coordinator. It is several of the largest requests that a broker takes,
	// which adapters send side by side.
	claimBatchMax = 1000
	// commandsDoneMax bounds the commands that a node remembers as carried out,
	// for a sender whose reply was lost, and who sends the same one again
	// although it was carried out and deleted meanwhile.
	commandsDoneMax = 10_000
	// callsInFlightMax bounds the calls of the coordinator under way at once,
	// for claims and for endings each.
	callsInFlightMax = 2
)

// Times that no setting changes.
const (
	// reconcileEvery is the period after which a copy looks whether its watch has missed
	// anything.
	reconcileEvery = 2 * time.Minute
	// layoutReadEvery is how often, at most, a client that writes reads the
	// version of the layout.
	layoutReadEvery = time.Minute
	// retryClaim is when a claim that failed at the broker is tried again.
	retryClaim = 500 * time.Millisecond
	// retryEnd is when endings that failed at the broker are tried again, and what is
	// read for a task.
	retryEnd = 200 * time.Millisecond
	// movesMaxDefault bounds the tasks that a node gives away in one round of
	// balancing.
	movesMaxDefault = 1000
	// failoverRateDefault is how many tasks a second a node takes over while
	// most nodes have vanished at once.
	failoverRateDefault = 200
	// loadEvery is how often a node asks for its load.
	loadEvery = 5 * time.Second
	// drainTick is the step in which a paced drain releases tasks.
	drainTick = schedule.DrainTick
	// drainRateDefault is how many tasks a second a drain releases.
	drainRateDefault = 200
	// drainWithinMax bounds the time that a drain may be given.
	drainWithinMax = 24 * time.Hour
	// drainRateMax bounds the rate that a command may ask for.
	drainRateMax = 100_000
)
