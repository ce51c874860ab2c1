package exectask

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cgroup"
)

// What callers branch on.
var (
	// ErrPastDeadline means that the node had no right yet, or none any more, to run
	// commands.
	ErrPastDeadline = errors.New("no right to run commands now")
	// ErrNotStarted means that the system refused the command: no such file,
	// not executable, no such folder.
	ErrNotStarted = errors.New("command not started")
	// ErrNotAllowed means that the command is not in the node's allow-list.
	ErrNotAllowed = errors.New("command not allowed")
	// ErrSupervisorLost means that the supervisor died or stopped answering;
	// the run's processes were killed by the node.
	ErrSupervisorLost = errors.New("the supervisor of commands was lost")
	// ErrClosed means that Close was called.
	ErrClosed = errors.New("the supervisor of commands is closed")
	// ErrUnavailable means that this system cannot run commands for tasks.
	ErrUnavailable = errors.New("commands cannot be run on this system")
	// ErrTooMany means that RunsMax commands are running already, or that the
	// machine is out of processes, files or memory.
	ErrTooMany = errors.New("too many commands are running")
)

// An InputError is a value that the package refuses.
type InputError struct {
	Field string // as it is spelled in props or Config, "command[2]"
	Value string // shortened
	Limit string // what would have been accepted
}

// Error names the field, the value and the limit.
func (e *InputError) Error() string {
	return fmt.Sprintf("%s is %s: %s", e.Field, e.Value, e.Limit)
}

const shownMax = 64

// refuse builds an InputError: "field is value: limit".
func refuse(field string, value any, limit string) error {
	return &InputError{Field: field, Value: fmt.Sprint(value), Limit: limit}
}

// quote quotes and shortens user input, so that it neither floods a log nor breaks its
// lines.
func quote(s string) string {
	if len(s) > shownMax {
		return fmt.Sprintf("%q… (%d bytes)", s[:shownMax], len(s))
	}
	return strconv.Quote(s)
}

// failure is the kind of an error in the supervisor's messages to the node.
type failure string

const (
	failDeadline failure = "deadline"
	failStart    failure = "start"
	failStopped  failure = "stopped"
	failLimit    failure = "limit"
)

// sentinels are the errors that callers branch on.
var sentinels = map[failure]error{
	failDeadline: ErrPastDeadline,
	failStart:    ErrNotStarted,
	failLimit:    ErrTooMany,
}

// scarce are the errors of a machine that is out of processes, memory, files or groups. A
// command that fails with one may start on another.
var scarce = []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.EBUSY, syscall.ENODEV, cgroup.ErrUnavailable}

// failureOf returns why a command could not be started.
func failureOf(err error) failure {
	if slices.ContainsFunc(scarce, func(s error) bool { return errors.Is(err, s) }) {
		return failLimit
	}
	return failStart
}

// failed turns the supervisor's error message into an error.
func failed(f failure, text string) error {
	if base, ok := sentinels[f]; ok {
		return fmt.Errorf("%w: %s", base, text)
	}
	return errors.New(text)
}
