package windlass

import (
	"context"
	"errors"

	"github.com/windlass-go/windlass/statemachine"
)

// Stateful makes a handler of a function that receives messages and returns one,
// by which the state of the task changes: Complete, Sleep with its time, Pause,
// Release, Error with its text, Kill; after Run and Checkpoint it is called again.
// A message that is incomplete counts as an error. When ctx ends, its cause says
// why, and what is returned is stored before the task is given back.
func Stateful(run func(ctx context.Context, c *Claim, messages <-chan statemachine.Command) statemachine.Command) NewHandler {
	return HandlerFunc(func(ctx context.Context, c *Claim) error {
		return Message(run(ctx, c, c.Messages()))
	})
}

// Message is a message for the state machine that a handler returns as its error.
func Message(c statemachine.Command) error { return &messageError{c} }

type messageError struct{ statemachine.Command }

// Error implements error.
func (e *messageError) Error() string { return "the handler returned the message " + string(e.Message) }

// messageOf is the message that a handler's error stands for, false if it is just
// an error.
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

// Messages are the commands that are sent to the task while its handler runs. A
// handler that calls it is told of them instead of being stopped for them, and is
// to return, soon, what is to become of the task; it need not do what it was told.
// Only Kill ends the context as well. If several come before one is received, the
// last one wins; one that was not received when the handler returns takes effect
// then. Without a call, commands that pause the task, put it to sleep, release or
// end it end the context, and take effect when Run has returned.
func (c *Claim) Messages() <-chan statemachine.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.messages == nil {
		c.messages = make(chan statemachine.Command, 1)
	}
	return c.messages
}

// deaf ends the handler's listening, and returns what it was told and has not
// received: the zero value for nothing.
func (c *Claim) deaf() (unread statemachine.Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case unread = <-c.messages:
	default: // also without a channel
	}
	c.messages = nil
	return unread
}

// tell passes a command on, in place of one that was not received. It returns
// false if the handler does not listen.
func (c *Claim) tell(command statemachine.Command) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.messages == nil {
		return false
	}
	select {
	case <-c.messages:
	default:
	}
	c.messages <- command // has room: nobody else sends
	return true
}
