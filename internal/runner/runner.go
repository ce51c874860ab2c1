// Package runner runs one function per claim in a goroutine of its own: it ends
// its context with a cause, turns a panic into an error with its stack, and
// knows whether it has returned.
//
// It does not force anything to return. What a caller does about a function
// that ignores its context, when its grace is over, is the caller's policy.
package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// ErrExited is the error of a function that ended its goroutine with
// runtime.Goexit instead of returning.
var ErrExited = errors.New("the handler called runtime.Goexit")

// PanicError is the error of a function that panicked.
type PanicError struct {
	// Value is what it panicked with.
	Value any
	// Stack is where.
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Group is the set of functions of one owner. The zero value is ready.
type Group struct {
	running sync.WaitGroup
}

// Run is one function that was started.
type Run struct {
	cancel   context.CancelCauseFunc
	done     chan struct{}
	returned atomic.Bool
}

// Go starts f with a context that descends from ctx and calls exited with what
// it returned, in the same goroutine, before Done is closed.
func (g *Group) Go(ctx context.Context, f func(context.Context) error, exited func(error)) *Run {
	ctx, cancel := context.WithCancelCause(ctx)
	r := &Run{cancel: cancel, done: make(chan struct{})}
	g.running.Go(func() {
		defer close(r.done)
		defer cancel(nil)
		// Reported from a deferred call, and on this goroutine alone, so that
		// Goexit does not take the report with it and a run costs one
		// goroutine only.
		err := ErrExited
		defer func() {
			if v := recover(); v != nil {
				err = &PanicError{Value: v, Stack: debug.Stack()}
			}
			r.returned.Store(true)
			exited(err)
		}()
		err = f(ctx)
	})
	return r
}

// Wait returns when every function of the group has returned.
func (g *Group) Wait() { g.running.Wait() }

// Stop ends the function's context. The first cause counts.
func (r *Run) Stop(cause error) { r.cancel(cause) }

// Done is closed when the function has returned and was reported.
func (r *Run) Done() <-chan struct{} { return r.done }

// Returned tells whether the function has returned, be it that nobody has taken
// note of the report yet.
func (r *Run) Returned() bool { return r.returned.Load() }
