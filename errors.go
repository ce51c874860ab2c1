package windlass

import (
	"errors"
	"fmt"

	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/layout"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
)

// What callers branch on; match with errors.Is. Errors of the broker, package
// broker's, come through as they are.
var (
	// ErrNotFound: there is no such task or node.
	ErrNotFound = errors.New("not found")
	// ErrExists: a task of that ID is live.
	ErrExists = errors.New("the task exists already")
	// ErrWorking: a task of that ID is held by a node.
	ErrWorking = errors.New("the task is being worked on")
	// ErrNoParent: the job above a job is not in the tree.
	ErrNoParent = errors.New("the job above it is not in the tree")
	// ErrFinished: a task of that ID has ended; see *FinishedError.
	ErrFinished = errors.New("the task has ended already")
	// ErrNameTaken: a live node has that name.
	ErrNameTaken = errors.New("a live node has this name")
	// ErrAbandoned: handlers did not return in time and were left behind.
	ErrAbandoned = errors.New("handlers did not return in time")
	// ErrRunning: the node was started before.
	ErrRunning = errors.New("a node runs only once")
	// ErrNotRunning: the node does not run.
	ErrNotRunning = errors.New("the node does not run")
	// ErrLayout: the namespace's layout is newer than this version knows; see
	// *LayoutError.
	ErrLayout = layout.ErrLayout
)

// Causes with which a handler's context ends; match context.Cause with
// errors.Is.
var (
	// ErrReleased: the node was told, or decided, to give the task back.
	ErrReleased = errors.New("the task is being released")
	// ErrLost: the claim is gone, or can no longer be trusted.
	ErrLost = session.ErrLost
	// ErrDraining: the node is stopping or being drained.
	ErrDraining = errors.New("the node is draining")
	// ErrDeleted: the task was deleted.
	ErrDeleted = errors.New("the task was deleted")
	// ErrKilled: the task was ended by command.
	ErrKilled = errors.New("the task was killed")
	// ErrCommanded: the task was paused or put to sleep by command, or otherwise
	// told to stop; the text names the message.
	ErrCommanded = errors.New("the task was commanded to stop")
	// ErrTimeout: the time that its spec gives each run is over. Unlike the
	// others it counts as an error, unless the handler returns a message, other
	// than Release, that says what is to become of the task.
	ErrTimeout = errors.New("the time for the run is over")
)

// ErrRelease is returned by a handler that wants its task given back, to be run
// again by whoever claims it.
var ErrRelease = errors.New("release the task")

// ErrDone is returned by a handler whose context has ended and whose task is done all
// the same, for good: nil would only say that it has stopped. Elsewhere it is as nil.
var ErrDone = errors.New("the task is done")

// ErrFenced: a write was refused because the claim is no longer held.
var ErrFenced = coordinator.ErrFenced

// FinishedError says in which terminal state a task already is; with
// Submission.Rerun it is run afresh. It is an ErrFinished.
type FinishedError struct {
	ID    string
	State statemachine.State
	// Same tells, of a submission, that what was submitted then is what was
	// submitted now.
	Same bool
}

// Error implements error.
func (e *FinishedError) Error() string { return fmt.Sprintf("task %q is %s already", e.ID, e.State) }

// Is makes it an ErrFinished.
func (e *FinishedError) Is(target error) bool { return target == ErrFinished }

// BadInputError names what was wrong with an input. Nothing was changed.
type BadInputError struct {
	// Field is what was given, Value what it was, Limit what is allowed.
	Field, Value, Limit string
}

// Error implements error. It has the beginning of a value that is long.
func (e *BadInputError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Field, shorten.To(e.Value, 80), e.Limit)
}

func badInput(field string, value any, limit string) error {
	return &BadInputError{Field: field, Value: fmt.Sprint(value), Limit: limit}
}

// badName makes the error of a name one of this package.
func badName(err error) error {
	var e *keys.NameError
	if errors.As(err, &e) {
		return &BadInputError{Field: e.Field, Value: e.Value, Limit: e.Limit}
	}
	return err
}

// permanentError marks an error that no retry would cure.
type permanentError struct{ err error }

// Error implements error.
func (e *permanentError) Error() string { return e.err.Error() }

// Unwrap makes the marked error visible.
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks an error that a handler returns as one that no retry would
// cure: the task fails at once instead of being run again. Permanent(nil) is
// nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err: err}
}

func isPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}
