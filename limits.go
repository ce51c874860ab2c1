package windlass

import (
	"time"

	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/schedule"
)

// Limits. Input over a limit is refused with an error that names it.
const (
	// PropsBytesMax limits the size of a task's properties.
	PropsBytesMax = 256 << 10
	// PropsDepthMax limits their nesting depth: an indented display needs as many
	// spaces at the start of each line.
	PropsDepthMax = 1000
	// ResultBytesMax limits a handler's result, as JSON.
	ResultBytesMax = 256 << 10
	// TypeBytesMax limits the name of a type.
	TypeBytesMax = keys.TypeBytesMax
	// NeedsMax limits the needs of a task. InputBytesMax limits the JSON of its needs and
	// its properties together, which are stored in one value when it has ended.
	NeedsMax      = 10_000
	InputBytesMax = 416 << 10
	// JobDepthMax limits the levels of the job tree.
	JobDepthMax = keys.JobDepthMax
	// WeightMax limits the weight of a task, and that of a node.
	WeightMax = 1000
	// LabelsMax limits the labels that a task requires or prefers, and the labels of a
	// node.
	LabelsMax = 32
	// TagsMax limits the tags of a task, and TagKeyBytesMax and TagValueBytesMax the
	// key and the value of each.
	TagsMax          = 16
	TagKeyBytesMax   = 63
	TagValueBytesMax = 256
	// CapacityMax limits the capacity of a node.
	CapacityMax = 1_000_000_000
	// ReturnWithinMax limits how long a node can ask others to wait for its return.
	ReturnWithinMax = 10 * time.Minute
	// TimeoutMax limits the time for a run, and the times of a retry policy.
	TimeoutMax = 100 * 365 * 24 * time.Hour
	// ProgressBytesMax limits the progress that a handler saves, as JSON.
	ProgressBytesMax = 256 << 10
	// ConcurrencyMax is the highest concurrency limit of a task type on a node.
	ConcurrencyMax = 1_000_000
	// PriorityMin and PriorityMax are the limits of a priority.
	PriorityMin, PriorityMax = -1000, 1000
	// SubmitBatchMax limits the tasks in one call of SubmitAll.
	SubmitBatchMax = 1_000_000
	// claimBatchMax limits the claims, and the endings, in one call of the coordinator.
	// A call spans several of the largest requests that a broker takes; adapters send
	// those side by side.
	claimBatchMax = 1000
	// commandsDoneMax limits the commands that a node remembers as carried out. A
	// sender whose reply was lost may send a command again after it was carried out and
	// deleted.
	commandsDoneMax = 10_000
	// callsInFlightMax limits the concurrent calls of the coordinator, for claims and
	// for endings each.
	callsInFlightMax = 2
)

// Times that no setting changes.
const (
	// retryClaim is the delay before a claim that failed at the broker is retried.
	retryClaim = 500 * time.Millisecond
	// retryEnd is the delay before endings that failed at the broker, and reads for a
	// task, are retried.
	retryEnd = 200 * time.Millisecond
	// movesMaxDefault limits the tasks that a node gives away in one round of
	// balancing.
	movesMaxDefault = 1000
	// failoverRateDefault is how many tasks per second a node takes over while most
	// nodes have vanished at once.
	failoverRateDefault = 200
	// loadEvery is how often a node reads its load.
	loadEvery = 5 * time.Second
	// drainTick is the interval at which a paced drain releases tasks.
	drainTick = schedule.DrainTick
)
