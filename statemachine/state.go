package statemachine

import "fmt"

// State is the state of a task.
type State string

// The states.
const (
	// Runnable: the task runs as soon as a node claims it.
	Runnable State = "runnable"
	// Sleeping: it runs again at a set time.
	Sleeping State = "sleeping"
	// Paused: it runs again when a command tells it to.
	Paused State = "paused"
	// Fault: it ended with an error, and its error handler has not decided yet.
	Fault State = "fault"
	// Completed: it is done. Terminal.
	Completed State = "completed"
	// Failed: it failed for good. Terminal.
	Failed State = "failed"
	// Killed: it was ended by a command. Terminal.
	Killed State = "killed"
)

// Terminal reports whether a task in this state never runs again.
func (s State) Terminal() bool { return s == Completed || s == Failed || s == Killed }

// Valid reports whether s is one of the states.
func (s State) Valid() bool {
	_, ok := transitions[s]
	return ok || s.Terminal()
}

// Message is a message that changes a state.
type Message string

// The messages.
const (
	// Run makes the task runnable.
	Run Message = "run"
	// Sleep makes it sleep; it requires a time.
	Sleep Message = "sleep"
	// Pause makes it wait for a message.
	Pause Message = "pause"
	// Release gives the claim back and changes nothing else.
	Release Message = "release"
	// Error reports an error; it requires a text.
	Error Message = "error"
	// Kill ends the task for good.
	Kill Message = "kill"
	// Complete ends the task as done.
	Complete Message = "complete"
	// Checkpoint saves progress and changes nothing else.
	Checkpoint Message = "checkpoint"
)

// transitions is the table of the contract: state, message, next state. A transition
// that is not listed is not allowed.
var transitions = map[State]map[Message]State{
	Runnable: {
		Checkpoint: Runnable, Release: Runnable, Run: Runnable,
		Sleep: Sleeping, Complete: Completed, Kill: Killed, Error: Fault, Pause: Paused,
	},
	Sleeping: {
		Checkpoint: Sleeping, Release: Sleeping, Sleep: Sleeping,
		Run: Runnable, Kill: Killed, Pause: Paused, Error: Fault,
	},
	Paused: {
		Checkpoint: Paused, Release: Paused, Pause: Paused,
		Run: Runnable, Sleep: Sleeping, Kill: Killed,
	},
	Fault: {
		Sleep: Sleeping, Error: Failed, Run: Runnable, Kill: Killed,
	},
}

// TransitionError reports that a state does not accept a message.
type TransitionError struct {
	State   State
	Message Message
}

// Error implements error.
func (e *TransitionError) Error() string {
	return fmt.Sprintf("a task that is %s does not accept %q", e.State, e.Message)
}

// Next returns the state after a message, or a *TransitionError. The empty state means
// runnable.
func Next(s State, m Message) (State, error) {
	if s == "" {
		s = Runnable
	}
	next, ok := transitions[s][m]
	if !ok {
		return s, &TransitionError{State: s, Message: m}
	}
	return next, nil
}
