package events

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/session"
)

// Log returns events that log: as warnings what an operator acts on, as
// information the life of the node, and as debug messages the life of tasks.
func Log(log *slog.Logger) Node {
	took := &takeovers{log: log, from: map[string][]string{}}
	return Node{
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
			if g.Cause == TakenOver {
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
