package windlass

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
)

// Tracer makes spans of what happens to tasks. Package tracing implements it with
// OpenTelemetry. The node's loop also calls its methods and those of its spans, so they
// must not block.
type Tracer interface {
	// Start begins a span and returns a context in which it is current.
	Start(ctx context.Context, s SpanStart) (context.Context, Span)
}

// Span is a span that was begun. Its methods are safe for concurrent use.
type Span interface {
	// Trace returns the span's W3C traceparent; empty if others cannot refer to the
	// span.
	Trace() string
	// End ends the span. It is called once.
	End(SpanEnd)
}

// SpanStart describes a span that begins.
type SpanStart struct {
	// Op is one of the operations below.
	Op string
	// Parent is the parent span, as a W3C traceparent, unless a span is current in the
	// context. Empty for none.
	Parent string
	// At is when the span began. Zero means now.
	At time.Time
	// Task, Type, Node and Token are those of the task and its claim; empty or zero if
	// there is none.
	Task, Type, Node string
	Token            int64
	// Cause is why the task was claimed, and From the node that held it before.
	Cause GrantCause
	From  string
	// Tasks is how many tasks were submitted in one call.
	Tasks int
}

// SpanEnd describes how a span ended.
type SpanEnd struct {
	// Outcome is what happened to the task; empty if that is not known yet.
	Outcome Outcome
	// Err is the error, if any.
	Err error
}

// The operations of spans.
const (
	// SpanSubmit: a call of Submit, SubmitAll or Enqueue.
	SpanSubmit = "submit"
	// SpanMove: a task changes its node. The span begins when the task could be claimed
	// there. Its parent is the submission, and the claim is its child.
	SpanMove = "move"
	// SpanClaim: from when a task could be claimed until it is. Its parent is the
	// submission or the move.
	SpanClaim = "claim"
	// SpanRun: a handler runs. Its parent is the claim.
	SpanRun = "run"
	// SpanComplete: the outcome of a task that has ended is stored. Its parent is the
	// run, or the submission if the claim is detached.
	SpanComplete = "complete"
)

// TraceBytesMax is the length of Spec.Trace.
const TraceBytesMax = 55

// ValidTrace reports whether trace is a W3C traceparent that can be stored with a task:
// version 00, in lower case, and with IDs that are not zero.
func ValidTrace(trace string) bool {
	parts := strings.Split(trace, "-")
	if len(trace) != TraceBytesMax || len(parts) != 4 {
		return false
	}
	for i, length := range [...]int{2, 32, 16, 2} {
		if len(parts[i]) != length || strings.Trim(parts[i], "0123456789abcdef") != "" {
			return false
		}
	}
	return parts[0] == "00" && strings.Trim(parts[1], "0") != "" && strings.Trim(parts[2], "0") != ""
}

func checkTrace(trace string) error {
	if trace != "" && !ValidTrace(trace) {
		return badInput("trace", trace, fmt.Sprintf("must be a W3C traceparent of version 00, %d bytes", TraceBytesMax))
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
	start := SpanStart{Op: SpanSubmit, Parent: first.Spec.Trace, Tasks: len(submissions)}
	if len(submissions) == 1 {
		start.Task, start.Type = first.ID, first.Spec.Type
	}
	if !ValidTrace(start.Parent) {
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
	return ctx, traced, func(errs []error) { span.End(SpanEnd{Err: firstFailure(errs)}) }
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

// traceDetached begins a span of a detached claim; the function it returns ends the
// span.
func (c *Client) traceDetached(ctx context.Context, op string, at time.Time, g coordinator.Granted, owner string, spec Spec) func(SpanEnd) {
	if c.tracer == nil {
		return func(SpanEnd) {}
	}
	start := SpanStart{Op: op, At: at, Task: g.ID, Type: spec.Type, Node: owner, Token: int64(g.Token)}
	if op == SpanClaim {
		start.Cause = GrantDequeued
	}
	if ValidTrace(spec.Trace) {
		start.Parent = spec.Trace
		ctx = context.Background() // the task's own trace is what it belongs to
	}
	_, span := c.tracer.Start(ctx, start)
	return span.End
}

// claimTrace is the tracing data of a claim.
type claimTrace struct {
	// claim is the span of the claim.
	claim string
	// ending is the span of the end that is being stored, nil for none. Only the loop
	// uses it.
	ending Span

	mu sync.Mutex
	// run is the span of the last run; the run's goroutine begins it.
	run string
}

// spanOf returns the description of a span of the claim, to be filled in.
func (c *Claim) spanOf(op, parent string) SpanStart {
	return SpanStart{Op: op, Parent: parent, Task: c.id, Type: c.kind.Spec.Type, Node: c.Node(), Token: c.Token()}
}

// traceGrant makes the spans of a claim that was granted.
func (c *Claim) traceGrant(g Grant) {
	tracer := c.in.config.Tracer
	if tracer == nil {
		return
	}
	parent := c.origin.trace
	if !ValidTrace(parent) {
		parent = ""
	}
	ops := []string{SpanClaim}
	if g.Moved() {
		ops = []string{SpanMove, SpanClaim}
	}
	for _, op := range ops {
		start := c.spanOf(op, parent)
		start.At, start.Cause, start.From = c.claimedAt.Add(-g.Waited), g.Cause, g.From
		_, span := tracer.Start(context.Background(), start)
		parent = span.Trace()
		span.End(SpanEnd{})
	}
	c.trace = &claimTrace{claim: parent}
}

// traced makes a handler run in a span of its own.
func (c *Claim) traced(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		// The task does not belong to a span of the program that started the node.
		within, span := c.in.config.Tracer.Start(context.Background(), c.spanOf(SpanRun, c.trace.claim))
		c.trace.mu.Lock()
		c.trace.run = span.Trace()
		c.trace.mu.Unlock()
		err := errors.New("the handler panicked, or called runtime.Goexit")
		defer func() { span.End(SpanEnd{Err: runFailure(ctx, err)}) }()
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
	_, t.ending = c.in.config.Tracer.Start(context.Background(), c.spanOf(SpanComplete, parent))
}

// recorded ends the span of a task's end.
func (t *claimTrace) recorded(outcome Outcome) {
	if t == nil || t.ending == nil {
		return
	}
	t.ending.End(SpanEnd{Outcome: outcome})
	t.ending = nil
}
