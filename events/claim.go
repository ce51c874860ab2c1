package events

import "time"

// Grant is a claim that was granted to this node.
type Grant struct {
	// Task is the ID of the task, Type the type it was submitted with.
	Task, Type string
	// Token is the fencing token.
	Token int64
	// Cause is why this node has the claim.
	Cause Cause
	// From is the node that held it before, empty if that is not known.
	From string
	// Waited is how long the task had no holder since it could have been claimed, as
	// this node saw it. Zero for an adopted claim.
	Waited time.Duration
}

// Moved reports whether the task has changed its node.
func (g Grant) Moved() bool { return g.Cause == Moved || g.Cause == TakenOver }

// Cause is why a node has a claim.
type Cause string

// The causes.
const (
	// Placed: no node held it before, as far as this node knows.
	Placed Cause = "placed"
	// Moved: another node gave it to this one.
	Moved Cause = "moved"
	// TakenOver: another node held it; that node is gone, or released it for any
	// node.
	TakenOver Cause = "taken_over"
	// Returned: this node held it last.
	Returned Cause = "returned"
	// Dequeued: it was claimed for a call of Dequeue.
	Dequeued Cause = "dequeued"
	// Adopted: a claim whose outcome was unknown turned out to be granted.
	Adopted Cause = "adopted"
)

// End is a run of a handler that has ended, or a claim that ended without one.
type End struct {
	// Task is the ID of the task, Type the type it was submitted with.
	Task, Type string
	// Token is the fencing token.
	Token int64
	// Outcome is what happened to the task.
	Outcome Outcome
	// Ran is true if a handler was started; Took is the time since then.
	Ran  bool
	Took time.Duration
}

// Outcome is the outcome of a claim.
type Outcome string

// The outcomes.
const (
	// Completed: the task is done.
	Completed Outcome = "completed"
	// Failed: the task failed for good.
	Failed Outcome = "failed"
	// Released: the task was given back.
	Released Outcome = "released"
	// Sleeping: the task runs again later, after an error or because it was put
	// to sleep.
	Sleeping Outcome = "sleeping"
	// Paused: the task waits for a command to run.
	Paused Outcome = "paused"
	// Killed: the task was ended by a command.
	Killed Outcome = "killed"
	// Dropped: the claim was lost, so nothing was recorded.
	Dropped Outcome = "dropped"
)
