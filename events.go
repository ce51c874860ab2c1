package windlass

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
)

// Events holds one function for each kind of event in a node; any may be nil. They are
// called from the node's goroutines and must not block.
type Events struct {
	// Joined: the node registered; timing has the derived deadlines of its session.
	Joined func(incarnation string, timing session.Timing)
	// Left: the incarnation ended; cause is nil after a graceful stop. abandoned lists
	// the tasks whose handlers had not returned.
	Left func(incarnation string, cause error, abandoned []string)
	// Waiting: the node cannot join yet and retries.
	Waiting func(cause error)
	// Granted: a claim was granted. It is reported once for each claim, before anything
	// is done with it.
	Granted func(Grant)
	// Claimed: a task is held and its handler is about to start. It is reported for
	// each start.
	Claimed func(task string, token int64)
	// Ended: a handler returned and the outcome was recorded, or a claim ended without
	// a handler or a record; see End.
	Ended func(End)
	// Errored: a handler failed. The task sleeps until the given time, or has failed
	// for good if that is zero. A panic or an invalid decision of an error handler is
	// also reported here, with a zero time.
	Errored func(task string, err error, until time.Time)
	// Fenced: the claim was no longer held, so a write was refused or a handler was
	// told to stop.
	Fenced func(task string, token int64, cause error)
	// Adopted: a claim whose outcome was unknown turned out to be granted.
	Adopted func(task string, token int64)
	// Commanded: a command to the node was carried out, or discarded with err.
	Commanded func(command string, err error)
	// TaskCommanded: a command to a task that this node holds was carried out, or
	// discarded with err.
	TaskCommanded func(task, message string, err error)
	// Corrupt: a value in the store could not be read. Only its own task or node is
	// affected.
	Corrupt func(key string, err error)
	// BrokerTrouble: a watch or a call to the broker failed. It is retried where that
	// may help.
	BrokerTrouble func(err error)
	// Braked: so many nodes vanished at about the same time that their tasks are taken
	// over only at this rate.
	Braked func(vanished, perSecond int)
	// Died: another node has vanished without notice, and its claims with it, or something has died
	// that ran the work of a node's tasks (Node.RecordDeath). It is told
	// again once it is known which task is to blame, as soon as the node is back. Every node
	// that is there reports it.
	Died func(Death)
	// BroughtBack: this node has made a task runnable again that had been set aside wrongly, as
	// another one explains the deaths. What its failure skipped stays ended.
	BroughtBack func(task, culprit string)
	// TypePaused: a type was paused, or resumed; this node holds so many of its tasks.
	TypePaused func(taskType string, paused bool, tasks int)
	// Balanced: tasks are released for other nodes to take.
	Balanced func(trigger Trigger, released int)
}

// Grant is a claim that was granted to this node.
type Grant struct {
	// Task is the ID of the task, Type the type it was submitted with.
	Task, Type string
	// Token is the fencing token.
	Token int64
	// Cause is why this node has the claim.
	Cause GrantCause
	// From is the node that held it before, empty if that is not known.
	From string
	// Waited is how long the task had no holder since it could have been claimed, as
	// this node saw it. Zero for an adopted claim.
	Waited time.Duration
}

// Moved reports whether the task has changed its node.
func (g Grant) Moved() bool { return g.Cause == GrantMoved || g.Cause == GrantTakenOver }

// GrantCause is why a node has a claim.
type GrantCause string

// The causes.
const (
	// GrantPlaced: no node held it before, as far as this node knows.
	GrantPlaced GrantCause = "placed"
	// GrantMoved: another node gave it to this one.
	GrantMoved GrantCause = "moved"
	// GrantTakenOver: another node held it; that node is gone, or released it for any
	// node.
	GrantTakenOver GrantCause = "taken_over"
	// GrantReturned: this node held it last.
	GrantReturned GrantCause = "returned"
	// GrantDequeued: it was claimed for a call of Dequeue.
	GrantDequeued GrantCause = "dequeued"
	// GrantAdopted: a claim whose outcome was unknown turned out to be granted.
	GrantAdopted GrantCause = "adopted"
)

// End is a run of a handler that has ended, or a claim that ended without one.
type End struct {
	// Task is the ID of the task, Type the type it was submitted with.
	Task, Type string
	// Token is the fencing token.
	Token int64
	// Outcome is what happened to the task.
	Outcome Outcome
	// Ran is true if a handler was started; Took is the time since then.
	Ran  bool
	Took time.Duration
}

// Outcome is the outcome of a claim.
type Outcome string

// The outcomes.
const (
	// OutcomeCompleted: the task is done.
	OutcomeCompleted Outcome = "completed"
	// OutcomeFailed: the task failed for good.
	OutcomeFailed Outcome = "failed"
	// OutcomeReleased: the task was given back.
	OutcomeReleased Outcome = "released"
	// OutcomeSleeping: the task runs again later, after an error or because it was put
	// to sleep.
	OutcomeSleeping Outcome = "sleeping"
	// OutcomePaused: the task waits for a command to run.
	OutcomePaused Outcome = "paused"
	// OutcomeKilled: the task was ended by a command.
	OutcomeKilled Outcome = "killed"
	// OutcomeDropped: the claim was lost, so nothing was recorded.
	OutcomeDropped Outcome = "dropped"
)

// withDefaults replaces every nil function by one that does nothing.
func (e Events) withDefaults() Events {
	if e.Joined == nil {
		e.Joined = func(string, session.Timing) {}
	}
	if e.Left == nil {
		e.Left = func(string, error, []string) {}
	}
	if e.Waiting == nil {
		e.Waiting = func(error) {}
	}
	if e.Granted == nil {
		e.Granted = func(Grant) {}
	}
	if e.Claimed == nil {
		e.Claimed = func(string, int64) {}
	}
	if e.Ended == nil {
		e.Ended = func(End) {}
	}
	if e.Errored == nil {
		e.Errored = func(string, error, time.Time) {}
	}
	if e.Fenced == nil {
		e.Fenced = func(string, int64, error) {}
	}
	if e.Adopted == nil {
		e.Adopted = func(string, int64) {}
	}
	if e.Commanded == nil {
		e.Commanded = func(string, error) {}
	}
	if e.TaskCommanded == nil {
		e.TaskCommanded = func(string, string, error) {}
	}
	if e.Corrupt == nil {
		e.Corrupt = func(string, error) {}
	}
	if e.BrokerTrouble == nil {
		e.BrokerTrouble = func(error) {}
	}
	if e.Braked == nil {
		e.Braked = func(int, int) {}
	}
	if e.Died == nil {
		e.Died = func(Death) {}
	}
	if e.BroughtBack == nil {
		e.BroughtBack = func(string, string) {}
	}
	if e.TypePaused == nil {
		e.TypePaused = func(string, bool, int) {}
	}
	if e.Balanced == nil {
		e.Balanced = func(Trigger, int) {}
	}
	return e
}

// LogEvents returns events that log: as warnings what an operator acts on, as
// information the life of the node, and as debug messages the life of tasks.
func LogEvents(log *slog.Logger) Events {
	took := &takeovers{log: log, from: map[string][]string{}}
	return Events{
		Joined: func(incarnation string, timing session.Timing) {
			log.Info("joined", "incarnation", incarnation, "timing", timing.String())
		},
		Left: func(incarnation string, cause error, abandoned []string) {
			if cause == nil && len(abandoned) == 0 {
				log.Info("left", "incarnation", incarnation)
				return
			}
			log.Warn("left", "incarnation", incarnation, "cause", cause, "abandoned", abandoned)
		},
		Waiting: func(cause error) { log.Warn("waiting to join", "cause", cause) },
		Granted: func(g Grant) {
			log.Debug("granted", "task", g.Task, "type", g.Type, "token", g.Token, "cause", string(g.Cause), "previous", g.From, "took", g.Waited)
			if g.Cause == GrantTakenOver {
				took.add(g)
			}
		},
		Claimed: func(task string, token int64) { log.Debug("claimed", "task", task, "token", token) },
		Ended: func(e End) {
			log.Debug("ended", "task", e.Task, "type", e.Type, "token", e.Token, "outcome", string(e.Outcome), "took", e.Took)
		},
		Errored: func(task string, err error, until time.Time) {
			if until.IsZero() {
				log.Warn("task failed", "task", task, "error", err)
				return
			}
			log.Warn("handler failed", "task", task, "error", err, "until", until)
		},
		Fenced: func(task string, token int64, cause error) {
			log.Warn("fenced", "task", task, "token", token, "cause", cause)
		},
		Adopted: func(task string, token int64) { log.Info("adopted", "task", task, "token", token) },
		Commanded: func(command string, err error) {
			if err != nil {
				log.Warn("command discarded", "command", command, "error", err)
				return
			}
			log.Info("command carried out", "command", command)
		},
		TaskCommanded: func(task, message string, err error) {
			if err != nil {
				log.Warn("command to a task discarded", "task", task, "message", message, "error", err)
				return
			}
			log.Info("command to a task carried out", "task", task, "message", message)
		},
		Corrupt:       func(key string, err error) { log.Warn("unreadable value", "key", key, "error", err) },
		BrokerTrouble: func(err error) { log.Warn("broker trouble", "error", err) },
		Braked: func(vanished, perSecond int) {
			log.Warn("most nodes vanished; taking over slowly", "vanished", vanished, "per_second", perSecond)
		},
		Died: func(d Death) { logDeath(log, d) },
		BroughtBack: func(task, culprit string) {
			log.Warn("a task was set aside wrongly and runs again; what its failure skipped stays ended", "task", task, "to_blame", culprit)
		},
		TypePaused: func(taskType string, paused bool, tasks int) {
			log.Info("type paused or resumed", "type", taskType, "paused", paused, "tasks", tasks)
		},
		Balanced: func(trigger Trigger, released int) {
			log.Info("balancing", "trigger", trigger.String(), "released", released)
		},
	}
}

// logDeath logs a death. Programs often log the name of their own node as "node".
func logDeath(log *slog.Logger, d Death) {
	what := "node died"
	log = log.With("name", d.Node, "claims", d.Claims)
	if d.Process != "" {
		what, log = "what ran tasks of a node died", log.With("process", d.Process)
	}
	if d.Culprit != "" {
		what, log = what+"; a task is to blame", log.With("task", d.Culprit, "deaths", d.Count)
	}
	log.Warn(what)
}

// takeovers gathers the tasks that a node takes over, for one line of the log for each
// node that held them before.
type takeovers struct {
	log  *slog.Logger
	mu   sync.Mutex
	from map[string][]string
}

const (
	// takeoversWithin is how long tasks are gathered, and takeoversNamed how many of
	// them a line names.
	takeoversWithin = time.Second
	takeoversNamed  = 5
)

func (t *takeovers) add(g Grant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.from) == 0 {
		time.AfterFunc(takeoversWithin, t.tell)
	}
	t.from[g.From] = append(t.from[g.From], g.Task)
}

func (t *takeovers) tell() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, node := range slices.Sorted(maps.Keys(t.from)) {
		tasks := t.from[node]
		t.log.Info("took over tasks", "previous", node, "tasks", len(tasks), "first", tasks[:min(len(tasks), takeoversNamed)])
	}
	clear(t.from)
}

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
