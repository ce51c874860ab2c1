package windlass

import "time"

// Limits. Whatever is over one is refused with an error that names it.
const (
	// PropsBytesMax bounds a task's properties.
	PropsBytesMax = 256 << 10
	// ResultBytesMax bounds what a handler leaves as its result, as JSON.
	ResultBytesMax = 128 << 10
	// TypeBytesMax bounds the name of a type.
	TypeBytesMax = 128
	// NeedsMax bounds the tasks that one task waits for, its ancestors
	// included.
	NeedsMax = 64
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
	// rankStep is how much longer the next-ranked node waits with claiming.
	rankStep = 250 * time.Millisecond
	// patience is how long a node that has its share leaves a task to others
	// before it takes it all the same: so long that nobody else is going to.
	patience = 2 * time.Second
	// releasedHold keeps a node from claiming again at once what it was just
	// told to release.
	releasedHold = 2 * time.Second
	// settle is how long an imbalance that no join or leave caused must last
	// before tasks move for it, and how long a task must have been running to
	// be moved then: finite tasks that come and go unevenly are best left alone.
	settle = 10 * time.Second
	// reconcileEvery is the period after which a copy is listed anew.
	reconcileEvery = 2 * time.Minute
	// layoutReadEvery is how often, at most, a client that writes reads the
	// version of the layout.
	layoutReadEvery = time.Minute
	// retryClaim is when a claim that failed at the broker is tried again.
	retryClaim = 500 * time.Millisecond
	// retryEnd is when endings that failed at the broker are tried again.
	retryEnd = 200 * time.Millisecond
	// drainTick is the step in which a paced drain releases tasks.
	drainTick = 100 * time.Millisecond
	// drainRateDefault is how many tasks a second a drain releases.
	drainRateDefault = 200
	// drainRateMax bounds the rate that a command may ask for.
	drainRateMax = 100_000
)
