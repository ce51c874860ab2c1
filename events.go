package windlass

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
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
	// Died: another node has vanished without notice, and its claims with it, or something has died
	// that ran the work of a node's tasks (Node.RecordDeath). It is told
	// again once it is known which task is to blame, as soon as the node is back. Every node
	// that is there reports it.
	Died func(Death)
	// BroughtBack: this node has made a task runnable again that had been set aside wrongly, as
	// another one explains the deaths. What its failure skipped stays ended.
	BroughtBack func(task, culprit string)
	// TypePaused: a type was paused, or resumed; this node holds so many of its tasks.
	TypePaused func(taskType string, paused bool, tasks int)
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
	if e.Died == nil {
		e.Died = func(Death) {}
	}
	if e.BroughtBack == nil {
		e.BroughtBack = func(string, string) {}
	}
	if e.TypePaused == nil {
		e.TypePaused = func(string, bool, int) {}
	}
	if e.Balanced == nil {
		e.Balanced = func(Trigger, int) {}
	}
	return e
}

// LogEvents returns events that log: as warnings what an operator acts on, as
// information the life of the node, and as debug messages the life of tasks.
func LogEvents(log *slog.Logger) Events {
	took := &takeovers{log: log, from: map[string][]string{}}
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
			if g.Cause == GrantTakenOver {
				took.add(g)
			}
		},
		Claimed: func(task string, token int64) { log.Debug("claimed", "task", task, "token", token) },
		Ended: func(e End) {
			log.Debug("ended", "task", e.Task, "type", e.Type, "token", e.Token, "outcome", string(e.Outcome), "took", e.Took)
		},
		Errored: func(task string, err error, until time.Time) {
			if until.IsZero() {
				log.Warn("task failed", "task", task, "error", err)
				return
			}
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
		Died: func(d Death) { logDeath(log, d) },
		BroughtBack: func(task, culprit string) {
			log.Warn("a task was set aside wrongly and runs again; what its failure skipped stays ended", "task", task, "to_blame", culprit)
		},
		TypePaused: func(taskType string, paused bool, tasks int) {
			log.Info("type paused or resumed", "type", taskType, "paused", paused, "tasks", tasks)
		},
		Balanced: func(trigger Trigger, released int) {
			log.Info("balancing", "trigger", trigger.String(), "released", released)
		},
	}
}

// logDeath logs a death. Programs often log the name of their own node as "node".
func logDeath(log *slog.Logger, d Death) {
	what := "node died"
	log = log.With("name", d.Node, "claims", d.Claims)
	if d.Process != "" {
		what, log = "what ran tasks of a node died", log.With("process", d.Process)
	}
	if d.Culprit != "" {
		what, log = what+"; a task is to blame", log.With("task", d.Culprit, "deaths", d.Count)
	}
	log.Warn(what)
}

// takeovers gathers the tasks that a node takes over, for one line of the log for each
// node that held them before.
type takeovers struct {
	log  *slog.Logger
	mu   sync.Mutex
	from map[string][]string
}

const (
	// takeoversWithin is how long tasks are gathered, and takeoversNamed how many of
	// them a line names.
	takeoversWithin = time.Second
	takeoversNamed  = 5
)

func (t *takeovers) add(g Grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.from) == 0 {
		time.AfterFunc(takeoversWithin, t.tell)
	}
	t.from[g.From] = append(t.from[g.From], g.Task)
}

func (t *takeovers) tell() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(t.from)) {
		tasks := t.from[node]
		t.log.Info("took over tasks", "previous", node, "tasks", len(tasks), "first", tasks[:min(len(tasks), takeoversNamed)])
	}
	clear(t.from)
}
