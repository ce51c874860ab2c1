package tracing_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/clock"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/observe/tracing"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/tree"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fleet is a store in virtual time, with nodes and a client that trace.
type fleet struct {
	*testing.T
	store    *memory.Store
	exporter *tracetest.InMemoryExporter
	provider *sdk.TracerProvider
	tracer   events.Tracer
	client   *windlass.Client
	running  sync.WaitGroup
	stops    []context.CancelFunc
}

func inFleet(t *testing.T, test func(f *fleet)) {
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{T: t, store: memory.New(), exporter: tracetest.NewInMemoryExporter()}
		f.provider = sdk.NewTracerProvider(sdk.WithSyncer(f.exporter))
		f.tracer = tracing.New(f.provider)
		defer func() {
			for _, stop := range f.stops {
				stop()
			}
			f.running.Wait()
			if err := errors.Join(f.provider.Shutdown(context.Background()), f.store.Close()); err != nil {
				t.Error(err)
			}
		}()
		var err error
		f.client, err = windlass.NewClient(f.store.Broker(), "/test", windlass.WithTracer(f.tracer))
		must(t, err)
		test(f)
	})
}

// join starts a node that traces, and returns its broker.
func (f *fleet) join(ctx context.Context, name string, handler func(context.Context, *windlass.Claim) error) *faulty.Broker {
	f.Helper()
	b := faulty.Wrap(f.store.Broker(), nil)
	n, err := windlass.NewNode(windlass.Config{
		Broker: b, Namespace: "/test", Name: name, Clock: clock.Process, Tracer: f.tracer,
		Handlers: map[string]windlass.NewHandler{"work": windlass.HandlerFunc(handler)},
	})
	must(f, err)
	ctx, stop := context.WithCancel(ctx)
	f.stops = append(f.stops, stop)
	f.running.Go(func() {
		if err := n.Run(ctx); err != nil {
			f.Error(err)
		}
	})
	f.until("it has joined", func() bool { return n.Stats().Joined })
	return b
}

// until waits in virtual time.
func (f *fleet) until(what string, is func() bool) {
	f.Helper()
	for range 3000 {
		if is() {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	f.Fatalf("it never came that %s: %v", what, f.names())
}

// spans returns the spans with a name, in the order in which they ended.
func (f *fleet) spans(name string) (found []tracetest.SpanStub) {
	for _, s := range f.exporter.GetSpans() {
		if s.Name == "windlass."+name {
			found = append(found, s)
		}
	}
	return found
}

func (f *fleet) names() (names []string) {
	for _, s := range f.exporter.GetSpans() {
		names = append(names, s.Name)
	}
	return names
}

// says returns an attribute of a span.
func says(s tracetest.SpanStub, key attribute.Key) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

func (f *fleet) submit(s windlass.Submission) {
	f.Helper()
	must(f, f.client.Submit(f.Context(), s))
}

func (f *fleet) completed(id string) bool {
	d, err := f.client.Task(f.Context(), id)
	return err == nil && d.Status == windlass.StatusCompleted
}

func TestTrace_ATaskThatANodeDiedWithIsOneTraceFromItsSubmissionToItsEnd(t *testing.T) {
	inFleet(t, func(f *fleet) {
		began := make(chan trace.SpanContext, 2)
		finish := make(chan struct{})
		handler := func(ctx context.Context, c *windlass.Claim) error {
			began <- trace.SpanContextFromContext(ctx)
			select {
			case <-finish:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		first := f.join(context.Background(), "n1", handler)
		ctx, root := f.provider.Tracer("test").Start(f.Context(), "request")
		must(t, f.client.Submit(ctx, windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "work"}}))
		root.End()
		current := []trace.SpanContext{<-began}
		f.join(context.Background(), "n2", handler)
		first.Cut() // for good: the node stops its handler, and the other one takes the task over
		current = append(current, <-began)
		close(finish)
		f.until("it is completed", func() bool { return f.completed("a") && len(f.spans("complete")) == 1 })

		submits, moves, claims, runs, completes := f.spans("submit"), f.spans("move"), f.spans("claim"), f.spans("run"), f.spans("complete")
		if len(submits) != 1 || len(moves) != 1 || len(claims) != 2 || len(runs) != 2 || len(completes) != 1 {
			t.Fatalf("the spans are %q", f.names())
		}
		for _, s := range f.exporter.GetSpans() {
			if s.SpanContext.TraceID() != root.SpanContext().TraceID() {
				t.Errorf("%s is in another trace", s.Name)
			}
		}
		for i, link := range []struct{ child, parent tracetest.SpanStub }{
			{claims[0], submits[0]}, {runs[0], claims[0]}, {moves[0], submits[0]}, {claims[1], moves[0]}, {runs[1], claims[1]}, {completes[0], runs[1]},
		} {
			if link.child.Parent.SpanID() != link.parent.SpanContext.SpanID() {
				t.Errorf("link %d: %s is not below %s", i, link.child.Name, link.parent.Name)
			}
		}
		if submits[0].Parent.SpanID() != root.SpanContext().SpanID() || submits[0].SpanKind != trace.SpanKindProducer {
			t.Errorf("the submission is %v below %v", submits[0].SpanKind, submits[0].Parent)
		}
		for i, s := range runs {
			if s.SpanContext.SpanID() != current[i].SpanID() || s.SpanKind != trace.SpanKindConsumer {
				t.Errorf("run %d, a %v, was not what its handler had in its context", i, s.SpanKind)
			}
		}
		f.describes(moves[0], claims, runs, completes[0])
	})
}

// token returns the token in a span.
func (f *fleet) token(s tracetest.SpanStub) int {
	f.Helper()
	token, err := strconv.Atoi(says(s, tracing.KeyToken))
	must(f, err)
	return token
}

// describes checks the attributes of a task that was taken over.
func (f *fleet) describes(move tracetest.SpanStub, claims, runs []tracetest.SpanStub, complete tracetest.SpanStub) {
	f.Helper()
	if says(move, tracing.KeyFrom) != "n1" || says(move, tracing.KeyNode) != "n2" || says(move, tracing.KeyCause) != string(events.TakenOver) {
		f.Errorf("the move says %v", move.Attributes)
	}
	if says(claims[0], tracing.KeyCause) != string(events.Placed) || says(claims[0], tracing.KeyNode) != "n1" {
		f.Errorf("the first claim says %v", claims[0].Attributes)
	}
	if f.token(claims[0]) >= f.token(claims[1]) || says(claims[1], tracing.KeyToken) != says(runs[1], tracing.KeyToken) {
		f.Errorf("the tokens are %s, %s and %s", says(claims[0], tracing.KeyToken), says(claims[1], tracing.KeyToken), says(runs[1], tracing.KeyToken))
	}
	if runs[0].Status.Code != codes.Error || !strings.Contains(runs[0].Status.Description, windlass.ErrLost.Error()) || runs[1].Status.Code != codes.Unset {
		f.Errorf("the runs ended with %v and %v", runs[0].Status, runs[1].Status)
	}
	if says(complete, tracing.KeyOutcome) != string(events.Completed) || says(complete, tracing.KeyTask) != "a" || says(complete, tracing.KeyType) != "work" {
		f.Errorf("the end says %v", complete.Attributes)
	}
}

func TestTrace_IsNoPartOfWhatMakesTwoSubmissionsTheSame(t *testing.T) {
	inFleet(t, func(f *fleet) {
		task := windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "other", Priority: 3}, Props: []byte(`{"n":1}`)}
		f.submit(task)
		first, err := f.client.Task(f.Context(), "a")
		if err != nil || !events.ValidTrace(first.Spec.Trace) {
			t.Fatalf("%v, %+v", err, first.Spec)
		}
		shown, err := json.Marshal(first)
		if err != nil || !strings.Contains(string(shown), `"trace":"`+first.Spec.Trace+`"`) {
			t.Errorf("the JSON does not show the trace: %s, %v", shown, err)
		}
		err = f.client.Submit(f.Context(), task)
		if !windlass.AlreadySubmitted(err) {
			t.Errorf("in another trace it is not the same: %v", err)
		}
		plain, err := windlass.NewClient(f.store.Broker(), "/test")
		must(t, err)
		if err := plain.Submit(f.Context(), task); !windlass.AlreadySubmitted(err) {
			t.Errorf("without a trace it is not the same: %v", err)
		}
		if again, err := f.client.Task(f.Context(), "a"); err != nil || again.Spec.Trace != first.Spec.Trace {
			t.Errorf("its trace is %q now: %v", again.Spec.Trace, err)
		}
		for _, s := range f.spans("submit") {
			if s.Status.Code == codes.Error {
				t.Errorf("what was submitted before is no error: %v", s.Status)
			}
		}
		task.Spec.Priority = 4
		if err := f.client.Submit(f.Context(), task); err == nil || f.spans("submit")[2].Status.Code != codes.Error {
			t.Errorf("a different task: %v, %v", err, f.spans("submit")[2].Status)
		}
		task.Update = true
		f.submit(task)
		if changed, err := f.client.Task(f.Context(), "a"); err != nil || changed.Spec.Trace == first.Spec.Trace {
			t.Errorf("what was changed is still in the first trace: %v", err)
		}
	})
}

func TestTrace_ThatASubmissionNamesIsAboveIt(t *testing.T) {
	const remote = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	inFleet(t, func(f *fleet) {
		spec := windlass.Spec{Type: "other", Trace: remote}
		f.submit(windlass.Submission{ID: "a", Spec: spec})
		s := f.spans("submit")[0]
		if s.Parent.SpanID().String() != "b7ad6b7169203331" || s.SpanContext.TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("it is below %v", s.Parent)
		}
		if d, err := f.client.Task(f.Context(), "a"); err != nil || !strings.Contains(d.Spec.Trace, s.SpanContext.SpanID().String()) {
			t.Errorf("the task has %q: %v", d.Spec.Trace, err)
		}
		// In one call: those that name nothing, or the same, are below it, and others keep theirs.
		other := "00-11111111111111111111111111111111-2222222222222222-00"
		errs := f.client.SubmitAll(f.Context(), []windlass.Submission{
			{ID: "b", Spec: windlass.Spec{Trace: remote}}, {ID: "c"}, {ID: "d", Spec: windlass.Spec{Trace: other}},
		})
		must(t, errors.Join(errs...))
		span := f.spans("submit")[1]
		if says(span, tracing.KeyTasks) != "3" {
			t.Errorf("it says %v", span.Attributes)
		}
		for id, want := range map[string]string{"b": span.SpanContext.SpanID().String(), "c": span.SpanContext.SpanID().String(), "d": other} {
			if d, err := f.client.Task(f.Context(), id); err != nil || !strings.Contains(d.Spec.Trace, want) {
				t.Errorf("%s has %q, want %s: %v", id, d.Spec.Trace, want, err)
			}
		}
		for _, bad := range []string{"x", "00-00000000000000000000000000000000-b7ad6b7169203331-01", strings.ToUpper(remote), remote + "-", "01" + remote[2:],
			"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01"} {
			err := f.client.Submit(f.Context(), windlass.Submission{ID: "e", Spec: windlass.Spec{Trace: bad}})
			if input, ok := errors.AsType[*windlass.BadInputError](err); !ok || input.Field != "trace" {
				t.Errorf("%q: %v", bad, err)
			}
		}
	})
}

func TestTrace_OfAJobIsNotKeptInTheTree(t *testing.T) {
	inFleet(t, func(f *fleet) {
		jobs, err := tree.New(f.store.Broker(), "/test", windlass.WithTracer(f.tracer))
		must(t, err)
		_, err = jobs.Queue(f.Context(), tree.Request{Name: "a", Type: "b"})
		must(t, err)
		job, err := f.store.Broker().Get(f.Context(), "/test/tree/a_b")
		must(t, err)
		if strings.Contains(string(job.Value), "trace") {
			t.Errorf("its place in the tree is %s", job.Value)
		}
		if d, err := f.client.Task(f.Context(), "a_b"); err != nil || !events.ValidTrace(d.Spec.Trace) {
			t.Errorf("its task is %+v: %v", d.Spec, err)
		}
	})
}

func TestTrace_RunsThatFailPanicOrSleepAndWhatIsKilledWithoutOne(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.join(context.Background(), "n1", func(ctx context.Context, c *windlass.Claim) error {
			switch c.ID() {
			case "panics":
				panic("no")
			case "fails":
				return windlass.Permanent(errors.New("bad luck"))
			}
			return windlass.Message(statemachine.Command{Message: statemachine.Pause})
		})
		for _, id := range []string{"panics", "fails", "pauses"} {
			f.submit(windlass.Submission{ID: id, Spec: windlass.Spec{Type: "work"}})
		}
		status := func(id string, want windlass.Status) func() bool {
			return func() bool { d, err := f.client.Task(f.Context(), id); return err == nil && d.Status == want }
		}
		f.until("it has failed", status("fails", windlass.StatusFailed))
		f.until("it has paused", status("pauses", windlass.StatusPaused))
		f.until("it sleeps", status("panics", windlass.StatusSleeping))
		_, err := f.client.SendTask(f.Context(), "pauses", statemachine.Command{Message: statemachine.Kill})
		must(t, err)
		f.until("it is killed", status("pauses", windlass.StatusKilled))
		f.until("both ends are there", func() bool { return len(f.spans("complete")) == 2 })
		if runs := f.spans("run"); !slices.ContainsFunc(runs, func(s tracetest.SpanStub) bool {
			return says(s, tracing.KeyTask) == "pauses" && s.Status.Code == codes.Unset
		}) {
			t.Error("that a task was paused is a failure of its run")
		}
		for _, s := range f.spans("run") {
			if task := says(s, tracing.KeyTask); task == "fails" && s.Status.Description != "bad luck" || task == "panics" && s.Status.Code != codes.Error {
				t.Errorf("the run of %s ended with %v", task, s.Status)
			}
		}
		outcomes := []string{says(f.spans("complete")[0], tracing.KeyOutcome), says(f.spans("complete")[1], tracing.KeyOutcome)}
		if !slices.Equal(outcomes, []string{string(events.Failed), string(events.Killed)}) {
			t.Errorf("the ends are %q", outcomes)
		}
	})
}

func TestTrace_OfAClaimThatNoNodeHolds(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.submit(windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "pulled"}})
		leases := lease.New(f.client, f.tracer)
		d, err := leases.Dequeue(f.Context(), "pulled", "script", 0)
		must(t, err)
		must(t, leases.Complete(f.Context(), d.ID, d.Token, nil))
		submit := f.spans("submit")[0]
		for _, name := range []string{"claim", "complete"} {
			spans := f.spans(name)
			if len(spans) != 1 || spans[0].Parent.SpanID() != submit.SpanContext.SpanID() || says(spans[0], tracing.KeyNode) != "script" {
				t.Errorf("the spans %s are %+v", name, spans)
			}
		}
	})
}

func TestTrace_ThatIsNotSampledIsPassedOnAsSuch(t *testing.T) {
	provider := sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample()))
	_, span := tracing.New(provider).Start(t.Context(), events.SpanStart{Op: events.SpanSubmit})
	if name := span.Trace(); !events.ValidTrace(name) || !strings.HasSuffix(name, "-00") {
		t.Errorf("it is called %q", name)
	}
	span.End(events.SpanEnd{})
	none := sdk.NewTracerProvider()
	_ = none.Shutdown(t.Context())
	_, span = tracing.New(none).Start(t.Context(), events.SpanStart{Op: events.SpanRun})
	if name := span.Trace(); name != "" {
		t.Errorf("without a provider it is called %q", name)
	}
	span.End(events.SpanEnd{})
}

// The runs of a node that was started below a span were all in the trace of that span.
func TestTrace_OfTheContextOfANodeIsNotThatOfItsRuns(t *testing.T) {
	type key struct{}
	inFleet(t, func(f *fleet) {
		ctx, start := f.provider.Tracer("test").Start(context.WithValue(context.Background(), key{}, "kept"), "start")
		defer start.End()
		begun, finish := make(chan context.Context, 1), make(chan struct{})
		f.join(ctx, "n1", func(ctx context.Context, _ *windlass.Claim) error {
			begun <- ctx
			<-ctx.Done()
			close(finish)
			return ctx.Err()
		})
		f.submit(windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "work"}})
		running := <-begun
		submit, claim := f.spans("submit")[0], f.spans("claim")[0]
		if current := trace.SpanContextFromContext(running); current.TraceID() != submit.SpanContext.TraceID() {
			t.Errorf("the handler is in the trace %s, its task in %s", current.TraceID(), submit.SpanContext.TraceID())
		}
		if running.Value(key{}) != "kept" {
			t.Error("the handler has lost what the context of Run had")
		}
		below, cancel := context.WithCancel(running)
		defer cancel()
		must(t, f.client.Delete(f.Context(), "a"))
		<-finish
		<-below.Done() // a context ends before those below it do
		if cause := context.Cause(below); !errors.Is(cause, windlass.ErrDeleted) {
			t.Errorf("a context below that of the handler ended because of %v", cause)
		}
		f.until("the run has ended", func() bool { return len(f.spans("run")) == 1 })
		if run := f.spans("run")[0]; run.Parent.SpanID() != claim.SpanContext.SpanID() {
			t.Errorf("the run is below %v, want the claim", run.Parent)
		}
	})
}

// One text that was not UTF-8, such as an error with the output of a command, made the
// exporter drop the whole batch, with the spans of other tasks.
func TestSpan_HasOnlyTextThatCanBeSent(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	hostile := "caf\xe9" + strings.Repeat("é", 10000)
	_, span := tracing.New(provider).Start(t.Context(), events.SpanStart{Op: events.SpanRun, Task: hostile, Type: "\xff", From: "\xc3"})
	span.End(events.SpanEnd{Err: errors.New(hostile)})
	s := exporter.GetSpans()[0]
	texts := []string{s.Status.Description}
	for _, a := range append(s.Attributes, s.Events[0].Attributes...) {
		texts = append(texts, a.Value.String())
	}
	if len(texts) < 6 || !strings.HasPrefix(s.Status.Description, "caf\uFFFDé") {
		t.Errorf("it says %q", texts)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) || len(text) > 4200 {
			t.Errorf("%d bytes cannot be sent: %q", len(text), text[:min(len(text), 40)])
		}
	}
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
