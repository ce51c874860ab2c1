package windlass

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/stored"
	"github.com/windlass-go/windlass/statemachine"
)

// Handler runs a task for as long as this node holds the claim. A handler is
// made for one claim and run once.
type Handler interface {
	// Run does the work. It returns nil when the task is done, for good;
	// ErrRelease to give it back; Permanent(err) to fail it; any other error
	// to have it run again later. A panic is an error with its stack. Once ctx
	// has ended nil is as ErrRelease, and ErrDone says that the task is done.
	//
	// When ctx ends, its cause says why: ErrReleased, ErrDraining, ErrDeleted,
	// ErrKilled, ErrLost, ErrTimeout, or ErrCommanded for a command that pauses
	// the task or puts it to sleep. Run must then return before Claim.Deadline plus
	// the session's grace; what it returns after an end of ctx changes nothing
	// about that, unless it is ErrDone; after ErrKilled, nothing at all.
	//
	// A handler can also return Message, and receive commands by
	// Claim.Messages; see Stateful.
	Run(ctx context.Context, c *Claim) error
}

// NewHandler makes the handler for one claim.
type NewHandler func(task Task) Handler

// HandlerFunc makes a function a handler that keeps nothing between runs.
func HandlerFunc(run func(ctx context.Context, c *Claim) error) NewHandler {
	return func(Task) Handler { return runFunc(run) }
}

type runFunc func(context.Context, *Claim) error

// Run implements Handler.
func (f runFunc) Run(ctx context.Context, c *Claim) error { return f(ctx, c) }

// AnyType is the key of Config.Handlers for the types that have no handler of
// their own.
const AnyType = "*"

// Claim is a task that this node holds, as its handler sees it. Its methods are
// safe for concurrent use.
type Claim struct {
	task Task
	id   string
	// created and propsOnly are as in coordinator.Granted, and tell this task
	// from others that were submitted under its ID.
	fencing, created broker.Revision
	propsOnly        bool
	props            json.RawMessage
	kind             *taskKind
	origin           origin
	claimedAt        time.Time
	in               *incarnation // for what all its claims share
	// trace is nil without a tracer.
	trace *claimTrace

	mu     sync.Mutex
	result json.RawMessage
	// messages is set once the handler listens.
	messages chan statemachine.Command
	saved    *savedProgress
}

// ID of the task.
func (c *Claim) ID() string { return c.id }

// Task is what NewTask made of it.
func (c *Claim) Task() Task { return c.task }

// Spec is what it was submitted with. Its maps and slices must not be modified.
func (c *Claim) Spec() Spec {
	spec := c.kind.Spec
	spec.SubmittedAt, spec.Digest, spec.Trace = c.origin.submittedAt, c.origin.digest, c.origin.trace
	return spec
}

// Props are its properties, nil if it has none. They must not be modified.
func (c *Claim) Props() json.RawMessage { return c.props }

// Node is the name of this node.
func (c *Claim) Node() string { return c.in.config.Name }

// Token is the fencing token: it rises with every claim of this task. Claims of
// other tasks may share it. Hand it to whatever the handler writes to, and
// have it refuse a lower token than it has seen.
func (c *Claim) Token() int64 { return int64(c.fencing) }

// Deadline is until when the claim can be trusted, as things are now. Every
// renewal of the session moves it; the handler's context ends when it passes.
func (c *Claim) Deadline() time.Time { return time.Now().Add(c.in.session.Remaining()) }

// SetResult sets what is recorded with the task when the handler returns: the
// JSON of v, at most ResultBytesMax. The last call counts.
func (c *Claim) SetResult(v any) error {
	value, err := stored.Marshal(v)
	if err != nil {
		return fmt.Errorf("result of task %q: %w", c.ID(), err)
	}
	if !stored.Valid(value) {
		return badInput("result", string(value), "must be valid JSON, in UTF-8")
	}
	if len(value) > ResultBytesMax {
		return badInput("result", fmt.Sprintf("%d bytes", len(value)),
			fmt.Sprintf("must be at most %d bytes of JSON", ResultBytesMax))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result = value
	return nil
}

func (c *Claim) takeResult() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.result
}

func (c *Claim) token() broker.Revision { return c.fencing }

// ending begins the ending of the claim.
func (c *Claim) ending(kind coordinator.Kind) coordinator.Ending {
	return coordinator.Ending{ID: c.id, Token: c.fencing, Created: c.created, PropsOnly: c.propsOnly, Kind: kind}
}

// sum is a number for the claim, as the mirror makes one of it.
func (c *Claim) sum() uint64 { return mirror.ClaimSum(c.id, c.created, c.fencing) }
