package windlass

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/statemachine"
)

func checkTrace(trace string) error {
	if trace != "" && !events.ValidTrace(trace) {
		return badInput("trace", trace, fmt.Sprintf("must be a W3C traceparent of version 00, %d bytes", events.TraceBytesMax))
	}
	return nil
}

// traceSubmit begins the span of a call and adds it to the submissions. Its parent is
// the span that is current in ctx, or else the trace that the first submission names.
// Submissions that name another trace keep it.
func (c *Client) traceSubmit(ctx context.Context, submissions []Submission) (context.Context, []Submission, func([]error)) {
	if c.tracer == nil || len(submissions) == 0 {
		return ctx, submissions, func([]error) {}
	}
	first := submissions[0]
	start := events.SpanStart{Op: events.SpanSubmit, Parent: first.Spec.Trace, Tasks: len(submissions)}
	if len(submissions) == 1 {
		start.Task, start.Type = first.ID, first.Spec.Type
	}
	if !events.ValidTrace(start.Parent) {
		start.Parent = ""
	}
	ctx, span := c.tracer.Start(ctx, start)
	traced := make([]Submission, len(submissions))
	for i, s := range submissions {
		if trace := span.Trace(); trace != "" && (s.Spec.Trace == "" || s.Spec.Trace == start.Parent) {
			s.Spec.Trace = trace
		}
		traced[i] = s
	}
	return ctx, traced, func(errs []error) { span.End(events.SpanEnd{Err: firstFailure(errs)}) }
}

// firstFailure returns the first error, ignoring those of tasks that were already
// submitted.
func firstFailure(errs []error) error {
	for _, err := range errs {
		if err != nil && !AlreadySubmitted(err) {
			return err
		}
	}
	return nil
}

// claimTrace is the tracing data of a claim.
type claimTrace struct {
	// claim is the span of the claim.
	claim string
	// ending is the span of the end that is being stored, nil for none. Only the loop
	// uses it.
	ending events.Span

	mu sync.Mutex
	// run is the span of the last run; the run's goroutine begins it.
	run string
}

// spanOf returns the description of a span of the claim, to be filled in.
func (c *Claim) spanOf(op, parent string) events.SpanStart {
	return events.SpanStart{Op: op, Parent: parent, Task: c.held.ID, Type: c.kind.Spec.Type, Node: c.Node(), Token: c.Token()}
}

// traceGrant makes the spans of a claim that was granted.
func (c *Claim) traceGrant(g events.Grant) {
	tracer := c.in.config.Tracer
	if tracer == nil {
		return
	}
	parent := c.origin.trace
	if !events.ValidTrace(parent) {
		parent = ""
	}
	ops := []string{events.SpanClaim}
	if g.Moved() {
		ops = []string{events.SpanMove, events.SpanClaim}
	}
	for _, op := range ops {
		start := c.spanOf(op, parent)
		start.At, start.Cause, start.From = c.held.At.Add(-g.Waited), g.Cause, g.From
		_, span := tracer.Start(context.Background(), start)
		parent = span.Trace()
		span.End(events.SpanEnd{})
	}
	c.trace = &claimTrace{claim: parent}
}

// traced makes a handler run in a span of its own.
func (c *Claim) traced(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		// The task does not belong to a span of the program that started the node.
		within, span := c.in.config.Tracer.Start(context.Background(), c.spanOf(events.SpanRun, c.trace.claim))
		c.trace.mu.Lock()
		c.trace.run = span.Trace()
		c.trace.mu.Unlock()
		err := errors.New("the handler panicked, or called runtime.Goexit")
		defer func() { span.End(events.SpanEnd{Err: runFailure(ctx, err)}) }()
		err = run(spanned{Context: ctx, within: within})
		return err
	}
}

// spanned is the context of a handler with the values that a tracer added to another
// one.
type spanned struct {
	context.Context
	within context.Context
}

// Value implements context.Context.
func (s spanned) Value(key any) any {
	if value := s.within.Value(key); value != nil {
		return value
	}
	return s.Context.Value(key)
}

// runFailure returns the error of a run, from what its handler returned. A run that was
// told to stop, or that gives the task back, has not failed.
func runFailure(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	said, hasSaid := messageOf(err)
	switch {
	case errors.Is(cause, ErrLost), errors.Is(cause, ErrTimeout):
		return errors.Join(cause, err)
	case hasSaid && said.Message == statemachine.Error:
		return errors.New(said.Error)
	case hasSaid, cause != nil:
		return nil
	}
	return err
}

// traceEnd begins the span of the task's end, unless one is open.
func (c *Claim) traceEnd() {
	t := c.trace
	if t == nil || t.ending != nil {
		return
	}
	t.mu.Lock()
	parent := t.run
	t.mu.Unlock()
	if parent == "" { // nothing ran: it was killed, say
		parent = t.claim
	}
	_, t.ending = c.in.config.Tracer.Start(context.Background(), c.spanOf(events.SpanComplete, parent))
}

// recorded ends the span of a task's end.
func (t *claimTrace) recorded(outcome events.Outcome) {
	if t == nil || t.ending == nil {
		return
	}
	t.ending.End(events.SpanEnd{Outcome: outcome})
	t.ending = nil
}
