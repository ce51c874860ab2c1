package windlass

import (
	"errors"
	"fmt"

	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/edit"
	"github.com/windlass-go/windlass/internal/invalid"
	"github.com/windlass-go/windlass/internal/layout"
	"github.com/windlass-go/windlass/internal/life"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
)

// Errors that callers branch on; match with errors.Is. Broker errors are passed on as
// those of package broker.
var (
	// ErrNotFound: no such task or node; see also *NotFoundError.
	ErrNotFound = edit.ErrNotFound
	// ErrExists: a task with this ID is live.
	ErrExists = errors.New("the task exists already")
	// ErrWorking: a node holds the task with this ID.
	ErrWorking = edit.ErrWorking
	// ErrNoParent: the parent of a job is not in the tree.
	ErrNoParent = edit.ErrNoParent
	// ErrFinished: the task with this ID has ended; see *FinishedError.
	ErrFinished = errors.New("the task has ended already")
	// ErrUnmetNeed: a task that this one needs, or a job above it, was refused in the same
	// call, or has failed so that this one would be killed at once.
	ErrUnmetNeed = edit.ErrUnmetNeed
	// ErrNoInput: it is not known what the task was submitted with, since an older version
	// ended it.
	ErrNoInput = errors.New("it is not known what the task was submitted with")
	// ErrNameTaken: a live node has this name.
	ErrNameTaken = errors.New("a live node has this name")
	// ErrAbandoned: handlers did not return in time and were left behind.
	ErrAbandoned = errors.New("handlers did not return in time")
	// ErrRunning: the node was started before.
	ErrRunning = errors.New("a node runs only once")
	// ErrNotRunning: the node is not running.
	ErrNotRunning = errors.New("the node does not run")
	// ErrLayout: the namespace's layout is newer than this version supports; see
	// *LayoutError.
	ErrLayout = layout.ErrLayout
)

// Causes of the end of a handler's context; match context.Cause with errors.Is.
var (
	// ErrReleased: the node was told, or decided, to give the task back.
	ErrReleased = life.ErrReleased
	// ErrLost: the claim is gone, or can no longer be trusted.
	ErrLost = session.ErrLost
	// ErrDraining: the node is stopping or being drained.
	ErrDraining = life.ErrDraining
	// ErrDeleted: the task was deleted.
	ErrDeleted = life.ErrDeleted
	// ErrKilled: the task was ended by a command.
	ErrKilled = life.ErrKilled
	// ErrCommanded: a command paused the task, put it to sleep, or otherwise told it to
	// stop; the text names the message.
	ErrCommanded = life.ErrCommanded
	// ErrUpdated: the task was changed by a submission with Update, or restarted, and runs
	// again as it is now.
	ErrUpdated = life.ErrUpdated
	// ErrTypePaused: the type of the task was paused, with operate.Operator.PauseType.
	ErrTypePaused = life.ErrTypePaused
	// ErrTimeout: the run took longer than its spec's Timeout. Unlike the other causes
	// it counts as an error, unless the handler returns a message, other than Release,
	// that says what is to happen to the task.
	ErrTimeout = life.ErrTimeout
)

// ErrRelease is returned by a handler to give its task back. The task then runs again
// on whichever node claims it.
var ErrRelease = errors.New("release the task")

// ErrDone is returned by a handler whose context has ended but whose task is done for
// good; nil would then only mean that the handler has stopped. Before the context has
// ended it means the same as nil.
var ErrDone = errors.New("the task is done")

// ErrFenced: a write was refused because the claim is no longer held.
var ErrFenced = coordinator.ErrFenced

// FinishedError reports the terminal state in which a task already is. Client.Rerun runs it
// again, with a change if there is one, and Submission.Rerun as the submission has it. It
// matches ErrFinished.
type FinishedError struct {
	ID    string
	State statemachine.State
	// Same is true, for a submission, if the task was submitted with the same content.
	Same bool
}

// Error implements error.
func (e *FinishedError) Error() string { return fmt.Sprintf("task %q is %s already", e.ID, e.State) }

// Is reports whether target is ErrFinished.
func (e *FinishedError) Is(target error) bool { return target == ErrFinished }

// NotFoundError lists tasks of which nothing is kept: they were deleted, forgotten, or never
// submitted. It matches ErrNotFound.
type NotFoundError struct {
	// IDs of the tasks, sorted.
	IDs []string
}

// Error implements error. It shows the first of many IDs.
func (e *NotFoundError) Error() string {
	const shown = 5
	if more := len(e.IDs) - shown; more > 0 {
		return fmt.Sprintf("nothing is kept of the tasks %q and %d more", e.IDs[:shown], more)
	}
	return fmt.Sprintf("nothing is kept of the tasks %q", e.IDs)
}

// Is reports whether target is ErrNotFound.
func (e *NotFoundError) Is(target error) bool { return target == ErrNotFound }

// BadInputError reports an invalid input: Field names it, Value is its value, and Limit says what is allowed. It
// is the error for that of all packages of the library.
type BadInputError = invalid.Input

func badInput(field string, value any, limit string) error {
	return &BadInputError{Field: field, Value: fmt.Sprint(value), Limit: limit}
}

// permanentError marks an error that no retry would cure.
type permanentError struct{ err error }

// Error implements error.
func (e *permanentError) Error() string { return e.err.Error() }

// Unwrap returns the marked error.
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks an error returned by a handler as one that no retry would cure: the
// task fails at once instead of being run again. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err: err}
}

// IsPermanent reports whether an error was marked by Permanent.
func IsPermanent(err error) bool {
	var p *permanentError
	return errors.As(err, &p)
}

// ExistsError reports that a task with this ID is live. It matches ErrExists.
type ExistsError struct {
	ID string
	// Same is true if the live task was submitted with the same content.
	Same bool
}

// Error implements error.
func (e *ExistsError) Error() string {
	if e.Same {
		return fmt.Sprintf("task %q exists already", e.ID)
	}
	return fmt.Sprintf("task %q exists already, with another type, properties or other settings", e.ID)
}

// Is reports whether target is ErrExists.
func (e *ExistsError) Is(target error) bool { return target == ErrExists }

// AlreadySubmitted reports whether an error of Submit means that the very same task was
// submitted before, whether it is live or done. A repeated submission is then complete.
func AlreadySubmitted(err error) bool {
	var exists *ExistsError
	var finished *FinishedError
	switch {
	case errors.As(err, &exists):
		return exists.Same
	case errors.As(err, &finished):
		return finished.Same
	}
	return false
}
