package listing

import (
	"time"

	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/statemachine"
)

// Statuses that are no state of the state machine.
const (
	Pending = "pending"
	Blocked = "blocked"
	Running = "running"
)

// Task is what a list shows of a task.
type Task struct {
	ID, Type string
	// Status is one of those above, or a state.
	Status string
	// Node holds the task under Token, or held it last if the task has ended.
	Node                   string
	Token                  int64
	SubmittedAt, ClaimedAt *time.Time
	Priority, Weight       int
	// Waits has what a task waits for that no node holds.
	Waits  kind.Waiting
	Errors []statemachine.ErrorEntry
	// Failures is how many errors counted when the latest one happened, and FailuresMax is how many fail the task, zero
	// for none.
	Failures, FailuresMax int
	Restarts              *statemachine.Restarts
	Until, FinishedAt     *time.Time
	NotBefore             time.Time
	Tags                  map[string]string
}

// Spec is the part of a spec that a list shows.
type Spec struct {
	Type             string
	Priority, Weight int
	NotBefore        time.Time
	Submitted        *time.Time
	Needs            []string
	Retry            statemachine.RetryPolicy
	Tags             map[string]string
	// Err is set if it cannot be read.
	Err error
}

// state is the part of a task's state that a list shows.
type state struct {
	state                         statemachine.State
	taskType, node                string
	priority                      int
	token                         int64
	until, submitted, claimed, at *time.Time
	errors                        []statemachine.ErrorEntry
	failures                      int
	tags                          map[string]string
	// err is set if it cannot be read.
	err error
}
