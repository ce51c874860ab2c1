package windlass

import (
	"log/slog"
	"time"

	"github.com/windlass-go/windlass/session"
)

// Events holds one function for each kind of event in a node; any may be nil. They are
// called from the node's goroutines and must not block.
type Events struct {
	// Joined: the node registered; timing has the derived deadlines of its session.
	Joined func(incarnation string, timing session.Timing)
	// Left: the incarnation ended; cause is nil after a graceful stop. abandoned lists
	// the tasks whose handlers had not returned.
	Left func(incarnation string, cause error, abandoned []string)
	// Waiting: the node cannot join yet and retries.
	Waiting func(cause error)
	// Granted: a claim was granted. It is reported once for each claim, before anything
	// is done with it.
	Granted func(Grant)
	// Claimed: a task is held and its handler is about to start. It is reported for
	// each start.
	Claimed func(task string, token int64)
	// Ended: a handler returned and the outcome was recorded, or a claim ended without
	// a handler or a record; see End.
	Ended func(End)
	// Errored: a handler failed. The task sleeps until the given time, or has failed
	// for good if that is zero. A panic or an invalid decision of an error handler is
	// also reported here, with a zero time.
	Errored func(task string, err error, until time.Time)
	// Fenced: the claim was no longer held, so a write was refused or a handler was
	// told to stop.
	Fenced func(task string, token int64, cause error)
	// Adopted: a claim whose outcome was unknown turned out to be granted.
	Adopted func(task string, token int64)
	// Commanded: a command to the node was carried out, or discarded with err.
	Commanded func(command string, err error)
	// TaskCommanded: a command to a task that this node holds was carried out, or
	// discarded with err.
	TaskCommanded func(task, message string, err error)
	// Corrupt: a value in the store could not be read. Only its own task or node is
	// affected.
	Corrupt func(key string, err error)
	// BrokerTrouble: a watch or a call to the broker failed. It is retried where that
	// may help.
	BrokerTrouble func(err error)
	// Braked: so many nodes vanished at about the same time that their tasks are taken
	// over only at this rate.
	Braked func(vanished, perSecond int)
	// Balanced: tasks are released for other nodes to take.
	Balanced func(trigger Trigger, released int)
}

// Grant is a claim that was granted to this node.
type Grant struct {
	// Task is the ID of the task, Type the type it was submitted with.
	Task, Type string
	// Token is the fencing token.
	Token int64
	// Cause is why this node has the claim.
	Cause GrantCause
	// From is the node that held it before, empty if that is not known.
	From string
	// Waited is how long the task had no holder since it could have been claimed, as
	// this node saw it. Zero for an adopted claim.
	Waited time.Duration
}

// Moved reports whether the task has changed its node.
func (g Grant) Moved() bool { return g.Cause == GrantMoved || g.Cause == GrantTakenOver }

// GrantCause is why a node has a claim.
type GrantCause string

// The causes.
const (
	// GrantPlaced: no node held it before, as far as this node knows.
	GrantPlaced GrantCause = "placed"
	// GrantMoved: another node gave it to this one.
	GrantMoved GrantCause = "moved"
	// GrantTakenOver: another node held it; that node is gone, or released it for any
	// node.
	GrantTakenOver GrantCause = "taken_over"
	// GrantReturned: this node held it last.
	GrantReturned GrantCause = "returned"
	// GrantDequeued: it was claimed for a call of Dequeue.
	GrantDequeued GrantCause = "dequeued"
	// GrantAdopted: a claim whose outcome was unknown turned out to be granted.
	GrantAdopted GrantCause = "adopted"
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
	// OutcomeCompleted: the task is done.
	OutcomeCompleted Outcome = "completed"
	// OutcomeFailed: the task failed for good.
	OutcomeFailed Outcome = "failed"
	// OutcomeReleased: the task was given back.
	OutcomeReleased Outcome = "released"
	// OutcomeSleeping: the task runs again later, after an error or because it was put
	// to sleep.
	OutcomeSleeping Outcome = "sleeping"
	// OutcomePaused: the task waits for a command to run.
	OutcomePaused Outcome = "paused"
	// OutcomeKilled: the task was ended by a command.
	OutcomeKilled Outcome = "killed"
	// OutcomeDropped: the claim was lost, so nothing was recorded.
	OutcomeDropped Outcome = "dropped"
)

// withDefaults replaces every nil function by one that does nothing.
func (e Events) withDefaults() Events {
	if e.Joined == nil {
		e.Joined = func(string, session.Timing) {}
	}
	if e.Left == nil {
		e.Left = func(string, error, []string) {}
	}
	if e.Waiting == nil {
		e.Waiting = func(error) {}
	}
	if e.Granted == nil {
		e.Granted = func(Grant) {}
	}
	if e.Claimed == nil {
		e.Claimed = func(string, int64) {}
	}
	if e.Ended == nil {
		e.Ended = func(End) {}
	}
	if e.Errored == nil {
		e.Errored = func(string, error, time.Time) {}
	}
	if e.Fenced == nil {
		e.Fenced = func(string, int64, error) {}
	}
	if e.Adopted == nil {
		e.Adopted = func(string, int64) {}
	}
	if e.Commanded == nil {
		e.Commanded = func(string, error) {}
	}
	if e.TaskCommanded == nil {
		e.TaskCommanded = func(string, string, error) {}
	}
	if e.Corrupt == nil {
		e.Corrupt = func(string, error) {}
	}
	if e.BrokerTrouble == nil {
		e.BrokerTrouble = func(error) {}
	}
	if e.Braked == nil {
		e.Braked = func(int, int) {}
	}
	if e.Balanced == nil {
		e.Balanced = func(Trigger, int) {}
	}
	return e
}

// LogEvents returns events that log: as warnings what an operator acts on, as
// information the life of the node, and as debug messages the life of tasks.
func LogEvents(log *slog.Logger) Events {
	return Events{
		Joined: func(incarnation string, timing session.Timing) {
			log.Info("joined", "incarnation", incarnation, "timing", timing.String())
		},
		Left: func(incarnation string, cause error, abandoned []string) {
			if cause == nil && len(abandoned) == 0 {
				log.Info("left", "incarnation", incarnation)
				return
			}
			log.Warn("left", "incarnation", incarnation, "cause", cause, "abandoned", abandoned)
		},
		Waiting: func(cause error) { log.Warn("waiting to join", "cause", cause) },
		Granted: func(g Grant) {
			log.Debug("granted", "task", g.Task, "type", g.Type, "token", g.Token, "cause", string(g.Cause), "previous", g.From, "took", g.Waited)
		},
		Claimed: func(task string, token int64) { log.Debug("claimed", "task", task, "token", token) },
		Ended: func(e End) {
			log.Debug("ended", "task", e.Task, "type", e.Type, "token", e.Token, "outcome", string(e.Outcome), "took", e.Took)
		},
		Errored: func(task string, err error, until time.Time) {
			log.Warn("handler failed", "task", task, "error", err, "until", until)
		},
		Fenced: func(task string, token int64, cause error) {
			log.Warn("fenced", "task", task, "token", token, "cause", cause)
		},
		Adopted: func(task string, token int64) { log.Info("adopted", "task", task, "token", token) },
		Commanded: func(command string, err error) {
			if err != nil {
				log.Warn("command discarded", "command", command, "error", err)
				return
			}
			log.Info("command carried out", "command", command)
		},
		TaskCommanded: func(task, message string, err error) {
			if err != nil {
				log.Warn("command to a task discarded", "task", task, "message", message, "error", err)
				return
			}
			log.Info("command to a task carried out", "task", task, "message", message)
		},
		Corrupt:       func(key string, err error) { log.Warn("unreadable value", "key", key, "error", err) },
		BrokerTrouble: func(err error) { log.Warn("broker trouble", "error", err) },
		Braked: func(vanished, perSecond int) {
			log.Warn("most nodes vanished; taking over slowly", "vanished", vanished, "per_second", perSecond)
		},
		Balanced: func(trigger Trigger, released int) {
			log.Info("balancing", "trigger", trigger.String(), "released", released)
		},
	}
}

// String returns the name of the trigger.
func (t Trigger) String() string {
	switch t {
	case TriggerMembership:
		return "membership"
	case TriggerCommand:
		return "command"
	case TriggerDrift:
		return "drift"
	case TriggerSettling:
		return "settling"
	case TriggerReview:
		return "review"
	}
	return "unknown"
}
