package events

import (
	"context"
	"strings"
	"time"
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
	Cause Cause
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
	// run, or the submission if the claim is a lease.
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
