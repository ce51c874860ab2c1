package windlass

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/journal"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/statemachine"
)

// Claim is a task that this node holds, as its handler sees it. Its methods are safe
// for concurrent use.
type Claim struct {
	// held is the claim as it was granted. Except for its Ref, only the loop uses it.
	held journal.Claim
	// read is the revision up to which the task was read. Only the loop uses it.
	read broker.Revision
	kind *taskKind
	in   *incarnation // for what all its claims share
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
func (c *Claim) ID() string { return c.held.ID }

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
func (c *Claim) Token() int64 { return int64(c.held.Token) }

// Deadline returns the time until which the claim can currently be trusted. Every
// renewal of the session moves it. The handler's context ends when it passes.
func (c *Claim) Deadline() time.Time { return time.Now().Add(c.in.session.Remaining()) }

// sum returns a number for the claim, the same one that the mirror computes.
func (c *Claim) sum() uint64 { return mirror.ClaimSum(c.held.ID, c.held.Created, c.held.Token) }

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
