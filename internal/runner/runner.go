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
	"runtime"
	"strings"
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
	// Stack is where: a line for each call, the innermost first.
	Stack string
}

// Error implements error.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// What is left out of a stack: the calls of the Go runtime, and those of Windlass around the
// function.
const (
	ofGo     = "runtime."
	ofRunner = "github.com/windlass-go/windlass/internal/runner."
	ofNode   = "github.com/windlass-go/windlass."
)

// framesMax limits a stack.
const framesMax = 64

// stackOfPanic describes, for the deferred call that recovers, where the panic came from.
// The trace of the runtime is three times as long, and an error keeps only its beginning.
func stackOfPanic() string {
	var pcs [framesMax]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])]) // without itself and the deferred call
	var lines []string
	own := 0 // how many lines there are up to the last one that is not of the node
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); strings.HasPrefix(f.Function, ofRunner+"(*Group)") {
			break
		}
		if f.Function == "" || strings.HasPrefix(f.Function, ofGo) {
			continue
		}
		lines = append(lines, fmt.Sprintf("  %s (%s:%d)", f.Function, f.File, f.Line))
		if !strings.HasPrefix(f.Function, ofNode) {
			own = len(lines)
		}
	}
	return strings.Join(lines[:own], "\n")
}

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
				err = &PanicError{Value: v, Stack: stackOfPanic()}
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
