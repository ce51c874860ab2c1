package life

import "errors"

// The causes for which a handler is told to stop. The root package has them under the same names.
var (
	ErrReleased   = errors.New("the task is being released")
	ErrDraining   = errors.New("the node is draining")
	ErrDeleted    = errors.New("the task was deleted")
	ErrKilled     = errors.New("the task was killed")
	ErrCommanded  = errors.New("the task was commanded to stop")
	ErrUpdated    = errors.New("the task was changed or restarted")
	ErrTypePaused = errors.New("the type of the task is paused")
	ErrTimeout    = errors.New("the time for the run is over")
)

// Crash is the cause for a task whose work has died with the process that ran it. It matches ErrReleased.
type Crash struct{ Process string }

// Error says what has died; it is empty for the node itself.
func (c Crash) Error() string {
	if c.Process == "" {
		return ""
	}
	return "the " + c.Process + " that ran it died"
}

// Is reports whether target is ErrReleased.
func (c Crash) Is(target error) bool { return target == ErrReleased }
