package windlass

import (
	"context"
	"errors"

	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/statemachine"
)

// Handler runs a task for as long as this node holds the claim. Each claim has a
// handler of its own, which runs once.
type Handler interface {
	// Run does the work, and what it returns decides what becomes of the task. Once
	// ctx has ended, its cause decides too:
	//
	//	                 cause of the end of ctx
	//	returned         none       ErrReleased,  ErrTimeout  ErrCommanded
	//	                            ErrDraining,
	//	                            ErrUpdated
	//	nil              completed  released      retried     as commanded
	//	ErrDone          completed  completed     completed   completed
	//	ErrRelease       released   released      retried     as commanded
	//	Permanent(err)   failed     released      failed      as commanded
	//	another error    retried    released      retried     as commanded
	//	a panic          retried    released      retried     as commanded
	//	Message(…)       as it says as it says    as it says  as commanded
	//
	// Completed and failed tasks have ended. A released task runs again at once, on
	// this node or on another. A retried one has an error recorded, with the stack of
	// a panic, and runs again when Spec.Retry or Config.ErrorHandlers says so, if at
	// all. A Message of Run or Checkpoint releases the task after ErrReleased,
	// ErrDraining and ErrUpdated; one of Release has it retried after ErrTimeout.
	// ErrCommanded is the cause where a command pauses the task, puts it to sleep or
	// releases it, and the handler does not receive Claim.Messages. After ErrUpdated
	// this node claims the task again, if it still may. After ErrTypePaused the same
	// holds as after ErrReleased, but the task is paused where it would be released.
	//
	// After ErrKilled the task is killed, whatever Run returns. After ErrDeleted it
	// is gone. After ErrLost another node may run it already: ErrDone completes it if
	// the claim is still held, anything else changes nothing.
	//
	// Run must return before Claim.Deadline plus the session's grace: then another
	// node may start the task, and Config.Fence is called.
	//
	// The goroutine of Run, and those that it starts, have the labels windlass_task and
	// windlass_type in profiles of package runtime/pprof, and so has ctx.
	Run(ctx context.Context, c *Claim) error
}

// NewHandler makes the handler for one claim.
type NewHandler func(task Task) Handler

// HandlerFunc turns a function into a handler that keeps nothing between runs. Of nil it
// makes nil, which NewNode refuses.
func HandlerFunc(run func(ctx context.Context, c *Claim) error) NewHandler {
	if run == nil {
		return nil
	}
	return func(Task) Handler { return runFunc(run) }
}

type runFunc func(context.Context, *Claim) error

// Run implements Handler.
func (f runFunc) Run(ctx context.Context, c *Claim) error { return f(ctx, c) }

// AnyType is the key of Config.Handlers for all types that have no entry of their own.
const AnyType = keys.AnyType

// Stateful turns a function into a handler that receives messages and returns one. The
// returned message changes the task's state: Complete, Sleep with its time, Pause,
// Release, Error with its text, Kill. After Run and Checkpoint the function is called
// again. An incomplete message counts as an error. When ctx ends, its cause says why,
// and the returned message is stored before the task is given back.
func Stateful(run func(ctx context.Context, c *Claim, messages <-chan statemachine.Command) statemachine.Command) NewHandler {
	if run == nil {
		return nil
	}
	return HandlerFunc(func(ctx context.Context, c *Claim) error {
		return Message(run(ctx, c, c.Messages()))
	})
}

// Message returns an error that carries a message for the state machine. A handler
// returns it from Run.
func Message(c statemachine.Command) error { return &messageError{c} }

type messageError struct{ statemachine.Command }

// Error implements error.
func (e *messageError) Error() string { return "the handler returned the message " + string(e.Message) }

// messageOf returns the message that a handler's error stands for, and false for a
// plain error.
func messageOf(err error) (statemachine.Command, bool) {
	var message *messageError
	switch {
	case err == nil, errors.Is(err, ErrDone):
		return statemachine.Command{Message: statemachine.Complete}, true
	case errors.As(err, &message):
		return message.Command, true
	case errors.Is(err, ErrRelease):
		return statemachine.Command{Message: statemachine.Release}, true
	}
	return statemachine.Command{}, false
}
