package loadgen

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
)

// The phases of a run, in the order in which all of them are run.
const (
	// PhaseSubmit submits tasks to nodes that claim them meanwhile.
	PhaseSubmit = "submit"
	// PhasePlace has tasks wait for another one, and deletes that.
	PhasePlace = "place"
	// PhaseFailover kills a node.
	PhaseFailover = "failover"
	// PhaseDrain drains a node.
	PhaseDrain = "drain"
	// PhaseJoin starts another node.
	PhaseJoin = "join"
	// PhaseIdle looks at what running tasks cost.
	PhaseIdle = "idle"
)

// Phases are all of them.
var Phases = []string{PhaseSubmit, PhasePlace, PhaseFailover, PhaseDrain, PhaseJoin, PhaseIdle}

// Limits of Config.
const (
	// TasksMax bounds the tasks.
	TasksMax = 1_000_000
	// NodesMax bounds the nodes that are started at first.
	NodesMax = 64
	// IdleMax bounds how long the idle phase looks.
	IdleMax = time.Hour
	// TimeoutMax bounds the bound of a wait.
	TimeoutMax = time.Hour
)

// Config says what to measure. All fields but Server, Progress and Running must be set.
type Config struct {
	// Phases to run, in this order.
	Phases []string
	// Tasks is how many there are; 1 to TasksMax.
	Tasks int
	// Nodes is how many node processes there are at first; 1 to NodesMax, and
	// at least 2 if a phase takes one away.
	Nodes int
	// IdleFor is how long the idle phase looks; up to IdleMax.
	IdleFor time.Duration
	// Timeout bounds each wait; up to TimeoutMax.
	Timeout time.Duration
	// Broker is the connection of this process.
	Broker broker.Broker
	// Namespace is for this run alone, and is deleted in the end.
	Namespace string
	// Node makes the command of a process that calls RunNode, under that name,
	// on the same broker and namespace.
	Node func(name string) *exec.Cmd
	// Server is the broker's own process, if this run started it.
	Server *Server
	// Progress, if set, is told what is being done.
	Progress func(text string)
	// Running, if set, is told how many tasks run, while that is waited for.
	Running func(tasks int)
}

// InputError says what is wrong with a setting.
type InputError struct {
	// Field is the setting, Value what it was, Limit what is allowed.
	Field, Value, Limit string
}

// Error implements error.
func (e *InputError) Error() string { return fmt.Sprintf("%s %s: %s", e.Field, e.Value, e.Limit) }

// Check refuses what makes no sense, before anything is started. Broker and Node
// may be missing then.
func (c Config) Check() error {
	refuse := func(field string, value any, format string, args ...any) error {
		return &InputError{Field: field, Value: fmt.Sprint(value), Limit: fmt.Sprintf(format, args...)}
	}
	switch {
	case c.Tasks < 1 || c.Tasks > TasksMax:
		return refuse("tasks", c.Tasks, "must be from 1 to %d", TasksMax)
	case c.Nodes < 1 || c.Nodes > NodesMax:
		return refuse("nodes", c.Nodes, "must be from 1 to %d", NodesMax)
	case c.IdleFor <= 0 || c.IdleFor > IdleMax:
		return refuse("idle-for", c.IdleFor, "must be more than 0 and at most %v", IdleMax)
	case c.Timeout <= 0 || c.Timeout > TimeoutMax:
		return refuse("timeout", c.Timeout, "must be more than 0 and at most %v", TimeoutMax)
	case len(c.Phases) == 0:
		return refuse("phase", `""`, "must be one of %s", strings.Join(Phases, ", "))
	}
	for _, phase := range c.Phases {
		if !slices.Contains(Phases, phase) {
			return refuse("phase", fmt.Sprintf("%q", phase), "must be one of %s", strings.Join(Phases, ", "))
		}
		if c.Nodes < 2 && (phase == PhaseFailover || phase == PhaseDrain) {
			return refuse("nodes", c.Nodes, "must be at least 2, because the phase %s takes one away", phase)
		}
	}
	return nil
}

func (c Config) progress(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}
