// Package tracing makes OpenTelemetry spans for tasks: for their submission, claims, runs,
// moves to other nodes and completion. All spans of a task are in the trace of its
// submission, on whatever node they are made, because the task carries the submission's
// span as a W3C traceparent.
//
//	tracer := tracing.New(provider)
//	client, err := windlass.NewClient(store, "", windlass.WithTracer(tracer))
//	node, err := windlass.NewNode(windlass.Config{…, Tracer: tracer})
//
//	submit ─┬─ claim ── run                    on the node that had it first
//	        └─ move ─── claim ── run ── complete   on the one that took it over
//
// It needs only the API of OpenTelemetry; the program brings the provider with its
// exporter. The provider must not block when a span begins or ends: use a batch processor,
// not a simple one. The task does not carry the trace's state and baggage.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/windlass-go/windlass/events"
)

// Scope is the name under which the spans are made.
const Scope = "github.com/windlass-go/windlass"

// The attributes of spans.
const (
	// KeyTask is the ID of the task, KeyType its type.
	KeyTask = attribute.Key("windlass.task")
	KeyType = attribute.Key("windlass.type")
	// KeyNode is the node that claimed it, KeyToken the fencing token of the claim.
	KeyNode  = attribute.Key("windlass.node")
	KeyToken = attribute.Key("windlass.token")
	// KeyCause is why it was claimed, KeyFrom the node that held it before.
	KeyCause = attribute.Key("windlass.cause")
	KeyFrom  = attribute.Key("windlass.from")
	// KeyOutcome is what happened to it.
	KeyOutcome = attribute.Key("windlass.outcome")
	// KeyTasks is how many were submitted at once.
	KeyTasks = attribute.Key("windlass.tasks")
)

// New returns a tracer that uses a provider.
func New(provider trace.TracerProvider) events.Tracer {
	return &tracer{provider.Tracer(Scope)}
}

// Service returns the resource attribute that names the program which makes the spans.
func Service(name string) attribute.KeyValue { return attribute.String("service.name", name) }

type tracer struct{ spans trace.Tracer }

// Start implements events.Tracer.
func (t *tracer) Start(ctx context.Context, s events.SpanStart) (context.Context, events.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() && s.Parent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": s.Parent})
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(kindOf(s.Op)), trace.WithAttributes(attributes(s)...)}
	if !s.At.IsZero() {
		options = append(options, trace.WithTimestamp(s.At))
	}
	ctx, span := t.spans.Start(ctx, "windlass."+s.Op, options...)
	return ctx, &taskSpan{span}
}

// kindOf returns the kind of an operation's span. Submission and run are asynchronous, as
// those of a message are.
func kindOf(op string) trace.SpanKind {
	switch op {
	case events.SpanSubmit:
		return trace.SpanKindProducer
	case events.SpanRun:
		return trace.SpanKindConsumer
	}
	return trace.SpanKindInternal
}

func attributes(s events.SpanStart) (all []attribute.KeyValue) {
	text := func(key attribute.Key, value string) {
		if value != "" {
			all = append(all, key.String(plain(value)))
		}
	}
	text(KeyTask, s.Task)
	text(KeyType, s.Type)
	text(KeyNode, s.Node)
	text(KeyCause, string(s.Cause))
	text(KeyFrom, s.From)
	if s.Token != 0 {
		all = append(all, KeyToken.Int64(s.Token))
	}
	if s.Tasks != 0 {
		all = append(all, KeyTasks.Int(s.Tasks))
	}
	return all
}

// textBytesMax bounds a text in a span.
const textBytesMax = 4096

// plain shortens a text and makes it valid UTF-8. Otherwise an exporter may drop a whole
// batch, with the spans of other tasks.
func plain(text string) string {
	if len(text) > textBytesMax {
		text = text[:textBytesMax]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

type taskSpan struct{ span trace.Span }

// Trace implements events.Span.
func (t *taskSpan) Trace() string {
	c := t.span.SpanContext()
	if !c.IsValid() {
		return ""
	}
	return fmt.Sprintf("00-%s-%s-%02x", c.TraceID(), c.SpanID(), byte(c.TraceFlags()&trace.FlagsSampled))
}

// End implements events.Span.
func (t *taskSpan) End(end events.SpanEnd) {
	if end.Outcome != "" {
		t.span.SetAttributes(KeyOutcome.String(string(end.Outcome)))
	}
	if end.Err != nil {
		text := plain(end.Err.Error())
		if text != end.Err.Error() {
			end.Err = errors.New(text)
		}
		t.span.RecordError(end.Err)
		t.span.SetStatus(codes.Error, text)
	}
	t.span.End()
}
