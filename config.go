package windlass

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/session"
)

// NamespaceDefault is the namespace used when none is configured.
const NamespaceDefault = "/windlass"

// Config configures a node. Broker, and at least one of Handlers and Pulls, must be
// set; the zero value of every other field works.
type Config struct {
	// Broker is the store. Each node needs a connection of its own: the watches of many
	// nodes on one connection delay each other by seconds. The node does not close it.
	Broker broker.Broker
	// Namespace separates clusters that share a broker. Empty means NamespaceDefault;
	// surrounding slashes and spaces are ignored.
	Namespace string
	// Name is the node's name, unique among the live nodes of the namespace: 1 to 128
	// bytes of printable UTF-8 without a slash. Empty means the host name.
	Name string
	// Handlers maps a task type to the function that makes its handlers. The AnyType
	// entry applies to types that are not listed. The node leaves tasks of all other
	// types to other nodes.
	Handlers map[string]NewHandler
	// Pulls lists the task types that this node takes only when Dequeue is called,
	// instead of running handlers for them.
	Pulls []string
	// Concurrency limits how many tasks of each type run on this node at once. The
	// AnyType entry applies to each type that is not listed. No entry means no limit;
	// the maximum is ConcurrencyMax. The node does not claim ahead, so tasks shorter
	// than two round trips to the broker need a limit that is not low.
	Concurrency map[string]int
	// ErrorHandlers maps a task type to the function that decides what happens after
	// its handler fails. The AnyType entry applies to types that are not listed.
	// Without one, the task sleeps and runs again, with delays that grow to at most ten
	// minutes, or fails as its Spec.Retry says.
	ErrorHandlers map[string]ErrorHandler
	// NewTask makes the application's own task type. Nil means that a task is just its
	// ID. If it is set, the node keeps the properties of all tasks in memory, because
	// it calls NewTask before it claims.
	NewTask NewTask
	// Balancer decides what to claim and what to release. Nil means Planner, which
	// gives every node its share.
	Balancer Balancer
	// SessionTTL is how long the node may be out of contact before others take over its
	// tasks. All other times derive from it, see session.Derive. Zero means 15 s; the
	// range is 5 s to 300 s.
	SessionTTL time.Duration
	// ShutdownGrace is how long Run waits for handlers after its context ended. Zero
	// means the session's grace, 4 s for the default TTL.
	ShutdownGrace time.Duration
	// Zone and Labels describe the node, for tasks that require or prefer them and for
	// the spread of groups.
	Zone   string
	Labels map[string]string
	// Weight is the node's share of the work relative to other nodes. Zero means 1; the
	// maximum is WeightMax.
	Weight int
	// Capacity limits the total weight of the tasks that the node takes. Zero means no
	// limit; the maximum is CapacityMax.
	Capacity int
	// Load, if set, returns how much of the node is used up, from 0 to 1, by whatever
	// measure. The node's loop calls it every few seconds, so it must not block. Once
	// the load reaches OverloadedAt, the node keeps its tasks but takes no more until
	// the load is below RelievedAt.
	Load func() float64
	// ReturnWithin asks other nodes, also those that start meanwhile, to leave this node's
	// tasks alone for that long when it vanishes or is stopped, unless it is cordoned or was
	// drained. If a node of the same name joins in that time, it takes the tasks again. Zero
	// means no wait; the maximum is ReturnWithinMax.
	ReturnWithin time.Duration
	// MovesMax limits the tasks that the node gives away in one round of balancing.
	// Zero means 1000.
	MovesMax int
	// FailoverRate is how many tasks per second the node takes over from vanished nodes
	// when more than half of all nodes vanish at about the same time, so that the
	// remaining nodes are not overwhelmed. Zero means 200.
	FailoverRate int
	// Retention selects the finished tasks to forget. One node at a time applies it,
	// every RetentionEvery. The zero value forgets nothing.
	Retention Retention
	// Version is the application's version, shown to operators.
	Version string
	// LogDir is the directory where this node keeps the output of tasks; clients on the
	// same host find it by this path. Windlass itself writes nothing there.
	LogDir string
	// Events receives the node's events. The zero value reports nothing.
	Events events.Node
	// Tracer, if set, makes spans of claims and runs, in the trace in which the task
	// was submitted.
	Tracer events.Tracer
	// Renewed, if set, is called after every renewal with two readings of Clock's boot:
	// when handlers are told to stop, and when they must have returned. Both hold
	// unless the time of day is set forward meanwhile. Renewed must not block.
	Renewed func(stop, hard time.Duration)
	// Fence, if set, is called when the hard deadline passes while handlers have not
	// returned. Each call of overdue returns the IDs of their tasks at that moment, and
	// "election:" with the name for a function that leads. Fence runs outside the
	// node's loop and may end the process, which is the only sure way to stop a handler
	// that ignores its context. Nil leaves such handlers running: Windlass refuses what
	// they write through it.
	Fence func(overdue func() []string)
	// Survived has incarnations, as told to Events.Joined, that processes before this one
	// under its name have outlived: they were cut off, and ended themselves later. Such an
	// end is no death that a task could be to blame for. An application that wants this
	// keeps the names on disk, by Events.Left and Fence.
	Survived []string
	// Coordinator, if set, replaces or wraps the coordinator of each incarnation.
	Coordinator func(plain coordinator.Coordinator) coordinator.Coordinator
	// Clock reads the clocks that deadlines are kept by; see session.Config. Nil means
	// the machine's clocks; tests in virtual time need others.
	Clock func() (boot, day time.Duration)
}

// withDefaults returns the configuration with every default filled in, or an error that
// says everything that is wrong with it.
func (c Config) withDefaults() (Config, keys.Space, error) {
	var wrong []error
	if c.Broker == nil {
		wrong = append(wrong, badInput("broker", "", "must be set"))
	}
	space, err := keys.New(cmp.Or(c.Namespace, NamespaceDefault))
	if err != nil {
		wrong = append(wrong, err)
	}
	c.Namespace = space.Root()
	if c.Name == "" {
		if c.Name, err = os.Hostname(); err != nil {
			wrong = append(wrong, fmt.Errorf("node name: none is set and the host has none: %w", err))
		}
	}
	// It is a candidate in elections under its name.
	if err := cmp.Or(keys.CheckNodeName(c.Name), keys.CheckCandidateName(c.Name)); err != nil {
		wrong = append(wrong, err)
	}
	if err := session.CheckTTL(c.SessionTTL); err != nil {
		wrong = append(wrong, badInput("session TTL", c.SessionTTL, fmt.Sprintf("must be from %v to %v", session.TTLMin, session.TTLMax)))
	}
	if c.ShutdownGrace < 0 {
		wrong = append(wrong, badInput("shutdown grace", c.ShutdownGrace, "must not be negative"))
	}
	if c.Retention.Unblock {
		wrong = append(wrong, badInput("retention unblock", true, "is for Client.Prune: a failure that tasks wait for is forgotten by people only"))
	}
	if err := errors.Join(append(wrong, c.Retention.validate(), c.checkPlacement(), c.checkHandlers())...); err != nil {
		return Config{}, keys.Space{}, err
	}
	if c.Balancer == nil {
		c.Balancer = Planner{}
	}
	c.MovesMax = cmp.Or(c.MovesMax, movesMaxDefault)
	c.FailoverRate = cmp.Or(c.FailoverRate, failoverRateDefault)
	return c, space, nil
}

// checkPlacement checks the fields that affect where tasks go.
func (c Config) checkPlacement() error {
	var wrong []error
	if c.Capacity < 0 || c.Capacity > CapacityMax {
		wrong = append(wrong, badInput("capacity", c.Capacity, fmt.Sprintf("must be from 1 to %d, or 0 for no bound", CapacityMax)))
	}
	wrong = append(wrong, checkWeight("node weight", c.Weight), checkLabels("labels", c.Labels))
	if c.ReturnWithin < 0 || c.ReturnWithin > ReturnWithinMax {
		wrong = append(wrong, badInput("return within", c.ReturnWithin, fmt.Sprintf("must be from 0 to %v", ReturnWithinMax)))
	}
	if c.MovesMax < 0 {
		wrong = append(wrong, badInput("moves", c.MovesMax, "must be at least 1, or 0 for the default"))
	}
	if c.FailoverRate < 0 {
		wrong = append(wrong, badInput("failover rate", c.FailoverRate, "must be at least 1 a second, or 0 for the default"))
	}
	return errors.Join(wrong...)
}

func (c Config) checkHandlers() error {
	var wrong []error
	if len(c.Handlers) == 0 && len(c.Pulls) == 0 {
		wrong = append(wrong, badInput("handlers", "", "at least one must be set, or a type to pull"))
	}
	for _, name := range c.Pulls {
		if name != "" {
			wrong = append(wrong, keys.CheckType(name))
		}
		if _, both := c.Handlers[name]; both {
			wrong = append(wrong, badInput("pulls", name, "there is a handler for this type"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Concurrency)) {
		switch most := c.Concurrency[name]; {
		case most < 1 || most > ConcurrencyMax:
			wrong = append(wrong, badInput("concurrency", fmt.Sprintf("%s=%d", name, most), fmt.Sprintf("must be from 1 to %d", ConcurrencyMax)))
		case c.handler(name) == nil && name != AnyType:
			wrong = append(wrong, badInput("concurrency", name, "there is no handler for this type"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.ErrorHandlers)) {
		if c.ErrorHandlers[name] == nil {
			wrong = append(wrong, badInput("error handlers", name, "the handler must not be nil"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Handlers)) {
		if c.Handlers[name] == nil {
			wrong = append(wrong, badInput("handlers", name, "the handler must not be nil"))
		}
		if name != "" && name != AnyType {
			wrong = append(wrong, keys.CheckType(name))
		}
	}
	return errors.Join(wrong...)
}

// handler returns the maker for a type, nil if this node has none.
func (c Config) handler(taskType string) NewHandler {
	if h, ok := c.Handlers[taskType]; ok {
		return h
	}
	if c.pulls(taskType) {
		return nil
	}
	return c.Handlers[AnyType]
}

// pulls reports whether tasks of a type are only for callers of Dequeue.
func (c Config) pulls(taskType string) bool { return slices.Contains(c.Pulls, taskType) }

// runs reports whether this node takes tasks of a type at all.
func (c Config) runs(taskType string) bool { return c.handler(taskType) != nil || c.pulls(taskType) }

// errorHandler returns the error handler for a type, nil for the default.
func (c Config) errorHandler(taskType string) ErrorHandler {
	if h, ok := c.ErrorHandlers[taskType]; ok {
		return h
	}
	return c.ErrorHandlers[AnyType]
}
