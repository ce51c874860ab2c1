package windlass

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/internal/stored"
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
const AnyType = "*"

// Claim is a task that this node holds, as its handler sees it. Its methods are safe
// for concurrent use.
type Claim struct {
	id string
	// created and propsOnly are as in coordinator.Granted; they distinguish this task
	// from others submitted under the same ID.
	fencing, created broker.Revision
	propsOnly        bool
	// read is the revision up to which the task was read. Only the loop uses it.
	read      broker.Revision
	kind      *taskKind
	claimedAt time.Time
	// reason is why it was claimed. restarted is whether the record of the claim may have
	// restarts, and loopedAt is when the history was last told that what the handler runs
	// keeps ending. Only the loop uses them.
	reason    string
	restarted bool
	loopedAt  time.Time
	in        *incarnation // for what all its claims share
	// trace is nil without a tracer.
	trace *claimTrace

	mu     sync.Mutex
	origin origin
	task   Task
	props  json.RawMessage
	result json.RawMessage
	// messages is set once the handler calls Messages, and updates once it calls
	// Updates.
	messages chan statemachine.Command
	updates  chan json.RawMessage
	saved    *savedProgress
}

// ID returns the task's ID.
func (c *Claim) ID() string { return c.id }

// Task returns the task that NewTask made of the current properties.
func (c *Claim) Task() Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.task
}

// Spec returns the spec that the task was submitted with. Its maps and slices must not
// be modified.
func (c *Claim) Spec() Spec {
	c.mu.Lock()
	defer c.mu.Unlock()
	spec := c.kind.Spec
	spec.SubmittedAt, spec.Digest, spec.Trace, spec.By, spec.Tags = c.origin.submittedAt, c.origin.digest, c.origin.trace, c.origin.by, c.origin.tags
	return spec
}

// Props returns the task's properties, nil if it has none. They must not be modified.
// They are those of the claim, or the latest that were sent to Updates.
func (c *Claim) Props() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.props
}

// Node returns the name of this node.
func (c *Claim) Node() string { return c.in.config.Name }

// Token returns the fencing token, which rises with every claim of this task. Claims of
// other tasks may have the same token. Pass it to every system that the handler writes
// to, and have that system refuse a token lower than the highest it has seen.
func (c *Claim) Token() int64 { return int64(c.fencing) }

// Deadline returns the time until which the claim can currently be trusted. Every
// renewal of the session moves it. The handler's context ends when it passes.
func (c *Claim) Deadline() time.Time { return time.Now().Add(c.in.session.Remaining()) }

// SetResult sets the result that is recorded when the handler returns: the JSON of v,
// at most ResultBytesMax, and less if the task is no job and its needs and properties are
// very large. The last call counts.
func (c *Claim) SetResult(v any) error {
	value, err := stored.Marshal(v)
	if err != nil {
		return fmt.Errorf("result of task %q: %w", c.ID(), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := checkResult(value, &c.kind.Spec, c.props); err != nil {
		return err
	}
	c.result = value
	return nil
}

// checkResult checks a result of a task with a spec and properties. All three are stored
// in one value when it ends, other than those of a job, which the tree has.
func checkResult(result []byte, s *Spec, props []byte) error {
	most := ResultBytesMax
	if !s.Job {
		most = min(most, recordBytesMax-s.needsBytes()-len(props))
	}
	switch n := len(result); {
	case n > most:
		return badInput("result", fmt.Sprintf("%d bytes", n), fmt.Sprintf("must be at most %d bytes of JSON", most))
	case n > 0 && !stored.Valid(result):
		return badInput("result", string(result), "must be valid JSON, in UTF-8")
	}
	return nil
}

// recordBytesMax limits the result, the needs and the properties of a task together. The
// rest of a value is for its errors and the rest of its spec.
const recordBytesMax = broker.ValueBytesMax - 64<<10

func (c *Claim) takeResult() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result
}

func (c *Claim) token() broker.Revision { return c.fencing }

// ending returns an ending of the claim to fill in.
func (c *Claim) ending(kind coordinator.Kind) coordinator.Ending {
	return coordinator.Ending{ID: c.id, Token: c.fencing, Created: c.created, PropsOnly: c.propsOnly, Kind: kind, At: time.Now()}
}

// sum returns a number for the claim, the same one that the mirror computes.
func (c *Claim) sum() uint64 { return mirror.ClaimSum(c.id, c.created, c.fencing) }

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

// Messages returns a channel of the commands that are sent to the task while its
// handler runs. A handler that calls Messages receives those commands instead of being
// stopped for them. It must soon return what is to happen to the task, but need not do
// what the command says. Only Kill ends the context as well. If several commands arrive
// before one is received, the last one wins. A command that was not received when the
// handler returns takes effect then.
//
// For a handler that does not call Messages, a command that pauses the task, puts it to
// sleep, releases it or ends it also ends the context. The command takes effect when
// Run has returned.
func (c *Claim) Messages() <-chan statemachine.Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.messages == nil {
		c.messages = make(chan statemachine.Command, 1)
	}
	return c.messages
}

// Updates returns a channel of the task's properties, as they are changed by submissions
// with Update while its handler runs. A handler that calls Updates receives them instead
// of being stopped with ErrUpdated. If several arrive before one is received, the last
// one wins. A change of the tags alone goes unnoticed, except that Spec has the new ones. A
// change of anything else stops the handler in any case.
func (c *Claim) Updates() <-chan json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.updates == nil {
		c.updates = make(chan json.RawMessage, 1)
	}
	return c.updates
}

// listensToUpdates reports whether the handler has called Updates.
func (c *Claim) listensToUpdates() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.updates != nil
}

// update passes new properties, and the task made of them, to the handler. It returns
// false if the handler does not listen.
func (c *Claim) update(task Task, props json.RawMessage, from origin) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.updates == nil {
		return false
	}
	c.task, c.props, c.origin = task, props, from
	select {
	case <-c.updates:
	default:
	}
	c.updates <- props // has room: nobody else sends
	return true
}

// retag replaces what the claim knows of the fields that its kind leaves out.
func (c *Claim) retag(from origin) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.origin = from
}

// stopListening closes the handler to further commands and updates. It returns the
// command that the handler has not received, the zero value if there is none.
func (c *Claim) stopListening() (unread statemachine.Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case unread = <-c.messages:
	default: // also without a channel
	}
	c.messages, c.updates = nil, nil
	return unread
}

// tell passes a command to the handler, replacing one not yet received. It returns
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

// savedProgress is what a claim knows of its task's stored progress.
type savedProgress struct {
	// turn has one element while a call is in progress: a later one waits.
	turn chan struct{}
	// revision is the revision of the stored progress. It is zero if there is none or
	// it was not read yet.
	revision broker.Revision
}

func (c *Claim) progress() *savedProgress {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saved == nil {
		c.saved = &savedProgress{turn: make(chan struct{}, 1)}
	}
	return c.saved
}

// take waits until no other call is in progress. The caller must call done.
func (p *savedProgress) take(ctx context.Context) (done func(), err error) {
	select {
	case p.turn <- struct{}{}:
		return func() { <-p.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Checkpoint saves the JSON of v, at most ProgressBytesMax, as the task's progress. The
// next run of the task can read it with Progress, on any node. Checkpoint returns once
// the progress is stored, and retries while the broker is unreachable. It fails with
// ErrFenced, ErrDeleted or ErrLost if the claim is gone, and when ctx is done.
// Checkpoints of many tasks share requests.
func (c *Claim) Checkpoint(ctx context.Context, v any) error {
	value, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("progress of task %q: %w", c.id, err)
	}
	if len(value) > ProgressBytesMax {
		return badInput("progress", fmt.Sprintf("%d bytes", len(value)), fmt.Sprintf("must be at most %d bytes of JSON", ProgressBytesMax))
	}
	p := c.progress()
	done, err := p.take(ctx)
	if err != nil {
		return fmt.Errorf("progress of task %q: %w", c.id, err)
	}
	defer done()
	e := c.ending(coordinator.Checkpoint)
	e.State, e.Replaces = value, p.revision
	for {
		ended, err := c.in.store(ctx, e)
		switch {
		case err != nil:
			return fmt.Errorf("progress of task %q: %w", c.id, err)
		case ended.Err == nil:
			p.revision = ended.StateRevision
			return nil
		case errors.Is(ended.Err, coordinator.ErrStateChanged):
			// An earlier owner saved progress, or an earlier attempt was applied late:
			// what the current owner writes replaces it.
			e.Replaces = ended.StateRevision
		case errors.Is(ended.Err, coordinator.ErrGone):
			return fmt.Errorf("progress of task %q: %w", c.id, ErrDeleted)
		case broker.Temporary(ended.Err):
			e.Again = e.Again || broker.MaybeApplied(ended.Err)
			if !pause.For(ctx, retryEnd) {
				return fmt.Errorf("progress of task %q: %w", c.id, errors.Join(context.Cause(ctx), ended.Err))
			}
		default:
			return fmt.Errorf("progress of task %q: %w", c.id, ended.Err)
		}
	}
}

// Restarted records that the handler starts again what it runs, such as a process. Lists
// show the latest call until the handler returns; the history has an entry when a loop begins.
// A handler calls it for each restart, and once more with none in a row when that has lasted.
// It is written as the history is, in the background.
func (c *Claim) Restarted(restarts statemachine.Restarts) {
	restarts.LastEnd = shorten.Line(restarts.LastEnd, statemachine.HistoryDetailBytesMax/2)
	c.in.arrive(func() {
		if r := c.in.runs[c.id]; r != nil && r.claim == c {
			c.in.out.audit.restarted(r, restarts)
		}
	})
}

// Progress returns what the task's last Checkpoint saved on any node, as JSON; nil if
// there is none. It reads from the broker, and retries while that is unreachable until
// ctx is done.
func (c *Claim) Progress(ctx context.Context) (json.RawMessage, error) {
	p := c.progress()
	done, err := p.take(ctx)
	if err != nil {
		return nil, fmt.Errorf("progress of task %q: %w", c.id, err)
	}
	defer done()
	kv, err := patientGet(ctx, c.in.config.Broker, c.in.node.space.Progress(c.id))
	value, err := progressIn(c.id, kv, err)
	if err == nil {
		p.revision = kv.Modified
	}
	return value, err
}

// store passes a checkpoint to the loop and waits for its outcome.
func (in *incarnation) store(ctx context.Context, e coordinator.Ending) (coordinator.Ended, error) {
	outcome := make(chan coordinator.Ended, 1)
	select {
	case in.inbox <- func() { in.out.checkpoints.Put(outcome, e, time.Time{}) }:
	case <-in.over:
		return coordinator.Ended{}, ErrLost
	case <-ctx.Done():
		return coordinator.Ended{}, context.Cause(ctx)
	}
	select {
	case ended := <-outcome:
		return ended, nil
	case <-in.over:
		return coordinator.Ended{}, ErrLost
	case <-ctx.Done():
		return coordinator.Ended{}, context.Cause(ctx)
	}
}

// Duration is a time.Duration that is text in JSON, such as "1h30m".
type Duration time.Duration

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("duration %s: must be text such as \"1h30m\"", shorten.To(string(text), 80))
	}
	parsed, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("duration %q: must be text such as \"1h30m\"", shorten.To(s, 80))
	}
	*d = Duration(parsed)
	return nil
}

// Retry controls what happens after a task's handler fails, unless the task's type has
// an error handler. Its zero value means the defaults.
type Retry struct {
	// Errors is how many errors within Window fail the task for good, the latest
	// included. The maximum is statemachine.RetryErrorsLimit; -1 means that no number
	// does. Zero means 25 for a job of the tree, which comes to about two hours. For
	// any other task zero means no limit: it runs again for as long as it takes.
	Errors int `json:"errors,omitempty"`
	// Window is how far back errors count. Zero means 4 h.
	Window Duration `json:"window,omitempty"`
	// The task sleeps after an error: between half of Min and Min after the first, twice
	// as long after every further error that counts, between half of Max and Max at
	// most. Zero means 1 s and 10 min.
	Min Duration `json:"min,omitempty"`
	Max Duration `json:"max,omitempty"`
	// Deaths is with how many deaths within an hour, of the processes that run it, the task
	// fails as the culprit, if each came within ten seconds of its claim and no other task
	// explains them. With deaths that come later it fails once chance does not explain them,
	// which takes more. The maximum is DeathsMax; -1 means that no number fails it. Zero
	// means DeathsDefault.
	Deaths int `json:"deaths,omitempty"`
}

// jobErrorsMax is the default of Retry.Errors for a job: other jobs wait for it, and a
// tree knows how to handle a failure.
const jobErrorsMax = 25

// retryPolicy returns the policy that the default error handler follows.
func (s *Spec) retryPolicy() statemachine.RetryPolicy {
	var r Retry
	if s.Retry != nil {
		r = *s.Retry
	}
	if r.Errors == 0 && s.Job {
		r.Errors = jobErrorsMax
	}
	return statemachine.RetryPolicy{
		Errors: r.Errors, Window: time.Duration(r.Window), Min: time.Duration(r.Min), Max: time.Duration(r.Max),
	}
}

func (r *Retry) validate() error {
	if r == nil {
		return nil
	}
	if r.Errors < -1 || r.Errors > statemachine.RetryErrorsLimit {
		return badInput("retry errors", r.Errors, fmt.Sprintf("must be from 1 to %d, 0 for the default, or -1 for no limit", statemachine.RetryErrorsLimit))
	}
	if r.Deaths < -1 || r.Deaths > DeathsMax {
		return badInput("retry deaths", r.Deaths, fmt.Sprintf("must be from 1 to %d, 0 for the default of %d, or -1 for no limit", DeathsMax, DeathsDefault))
	}
	for field, d := range map[string]Duration{"retry window": r.Window, "retry min": r.Min, "retry max": r.Max} {
		if d < 0 || time.Duration(d) > TimeoutMax {
			return badInput(field, time.Duration(d), fmt.Sprintf("must be from 0 to %v", TimeoutMax))
		}
	}
	if r.Max != 0 && r.Min > r.Max {
		return badInput("retry min", time.Duration(r.Min), fmt.Sprintf("must be at most retry max, %v", time.Duration(r.Max)))
	}
	return nil
}

// Fault describes a task whose handler has failed, for an ErrorHandler.
type Fault struct {
	// ID and Spec are those of the task. The spec's maps and slices must not be
	// modified.
	ID   string
	Spec Spec
	// Task is the task that NewTask made.
	Task Task
	// Err is the latest error as the handler returned it, for errors.Is and errors.As.
	// It is nil if the error occurred on another node, which died before it called its
	// error handler.
	Err error
	// Errors lists the latest errors, the oldest first, at most statemachine.ErrorsMax.
	// Failures is how many errors there were in a row, including those not kept.
	Errors   []statemachine.ErrorEntry
	Failures int
	// Now is the time to count from.
	Now time.Time
}

// ErrorHandler decides what happens to a task whose handler has failed: Run, Sleep with
// its time, Error to fail it for good, or Kill. The text of an Error is kept as the
// last of the task's errors, unless it repeats the last one. Interruptions are not
// errors and are not counted. The node's loop calls the function, so it must not block.
// If it panics or returns anything else, the default decides.
type ErrorHandler func(Fault) statemachine.Command
