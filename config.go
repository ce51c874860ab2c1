package windlass

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/schedule"
	"github.com/windlass-go/windlass/placement"
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
	Events Events
	// Tracer, if set, makes spans of claims and runs, in the trace in which the task
	// was submitted.
	Tracer Tracer
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
		wrong = append(wrong, badName(err))
	}
	c.Namespace = space.Root()
	if c.Name == "" {
		if c.Name, err = os.Hostname(); err != nil {
			wrong = append(wrong, fmt.Errorf("node name: none is set and the host has none: %w", err))
		}
	}
	// It is a candidate in elections under its name.
	if err := cmp.Or(keys.CheckNodeName(c.Name), keys.CheckCandidateName(c.Name)); err != nil {
		wrong = append(wrong, badName(err))
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
			wrong = append(wrong, checkType(name))
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
			wrong = append(wrong, checkType(name))
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

// NodeInfo is the registration of a node, as stored under nodes/<node>/info.
type NodeInfo struct {
	Name      string    `json:"name"`
	StartedAt time.Time `json:"started_at"`
	Version   string    `json:"version,omitempty"`
	Zone      string    `json:"zone,omitempty"`
	// Labels, Weight and Capacity are as configured.
	Labels   map[string]string `json:"labels,omitempty"`
	Weight   int               `json:"weight,omitempty"`
	Capacity int               `json:"capacity,omitempty"`
	// ReturnWithin is how long other nodes leave its tasks alone after it is gone, as a
	// duration such as "30s"; empty means not at all.
	ReturnWithin string `json:"return_within,omitempty"`
	// Types lists the task types it has handlers for. Pulls lists the types that it
	// takes only on request. Limits is its concurrency limit by type.
	Types  []string       `json:"types"`
	Pulls  []string       `json:"pulls,omitempty"`
	Limits map[string]int `json:"limits,omitempty"`
	// SessionTTL is the TTL that the broker granted, as a duration such as "15s".
	SessionTTL string `json:"session_ttl"`
	// Incarnation identifies the node's current session.
	Incarnation string `json:"incarnation"`
	// Host is the machine it runs on. LogDir is the directory there in which it keeps
	// the output of tasks.
	Host   string `json:"host,omitempty"`
	LogDir string `json:"log_dir,omitempty"`
	// A Frozen or Cordoned node claims nothing and keeps what it has. A Draining node
	// gives its tasks away.
	Frozen   bool `json:"frozen"`
	Cordoned bool `json:"cordoned,omitempty"`
	Draining bool `json:"draining"`
	// Load is the last published load, in hundredths. An Overloaded node keeps what it
	// has and claims nothing.
	Load       int  `json:"load,omitempty"`
	Overloaded bool `json:"overloaded,omitempty"`
	// Behind is a lower bound of the greatest lag of its task copy within the last half
	// minute, as a duration such as "4s", a power of two. It is empty below a second.
	Behind string `json:"behind,omitempty"`
	// SlowRenewal is how long the slowest renewal of its session within the last ten
	// minutes took, as a duration such as "1.5s". It is empty if each took less than a
	// quarter of session.Timing.Try.
	SlowRenewal string `json:"slow_renewal,omitempty"`
	// ShortLived lists the types whose tasks recently ended about as soon as they began
	// on this node, sorted. Every node places the types that any node lists by task
	// name alone.
	ShortLived []string `json:"short_lived,omitempty"`
	// A Returning node is being stopped and intends to come back.
	Returning bool `json:"returning,omitempty"`
	// Probation is set while the node is given nothing, because it has died repeatedly.
	// It is when that ends at the latest.
	Probation time.Time `json:"probation,omitzero"`
}

// leaving reports whether a node gives back the tasks that it has.
func (i *NodeInfo) leaving() bool { return i.Draining || i.Returning }

// closed returns why a node takes no tasks; empty if it does.
func (i *NodeInfo) closed() string {
	switch {
	case i.Draining:
		return "draining"
	case i.Returning:
		return "stopping"
	case i.Cordoned:
		return "cordoned"
	case i.Frozen:
		return "frozen"
	case !i.Probation.IsZero():
		return "on probation"
	case i.Overloaded:
		return "overloaded"
	}
	return ""
}

// placed converts the registration for the planner. Values that another program wrote
// out of their range are replaced by the nearest one allowed.
func (i *NodeInfo) placed() placement.Node {
	return placement.Node{
		Name: i.Name, Types: i.Types, Zone: i.Zone, Labels: i.Labels, Weight: min(max(i.Weight, 0), WeightMax),
		Capacity: min(max(i.Capacity, 0), CapacityMax), Closed: i.closed(),
		Limits: i.Limits, Pulls: i.Pulls,
	}
}

func (c Config) info(s *session.Session, started time.Time) NodeInfo {
	host, _ := os.Hostname() // it only helps people find the node
	return NodeInfo{
		Host: host, LogDir: c.LogDir,
		Name: c.Name, StartedAt: started.UTC(), Version: c.Version, Zone: c.Zone, Labels: c.Labels,
		Weight: c.Weight, Capacity: c.Capacity, Types: slices.Sorted(maps.Keys(c.Handlers)), Pulls: c.Pulls, Limits: c.Concurrency,
		SessionTTL: s.Timing().TTL.String(), Incarnation: s.Incarnation(), ReturnWithin: returnWithin(c.ReturnWithin),
	}
}

func returnWithin(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func (i NodeInfo) encode() []byte {
	value, err := json.Marshal(i)
	if err != nil {
		return nil // cannot be: strings, numbers and times before the year 10000
	}
	return value
}

// Limits. Input over a limit is refused with an error that names it.
const (
	// PropsBytesMax limits the size of a task's properties.
	PropsBytesMax = 256 << 10
	// PropsDepthMax limits their nesting depth: an indented display needs as many
	// spaces at the start of each line.
	PropsDepthMax = 1000
	// ResultBytesMax limits a handler's result, as JSON.
	ResultBytesMax = 256 << 10
	// TypeBytesMax limits the name of a type.
	TypeBytesMax = 128
	// NeedsMax limits the needs of a task. InputBytesMax limits the JSON of its needs and
	// its properties together, which are stored in one value when it has ended.
	NeedsMax      = 10_000
	InputBytesMax = 416 << 10
	// JobDepthMax limits the levels of the job tree.
	JobDepthMax = keys.JobDepthMax
	// WeightMax limits the weight of a task, and that of a node.
	WeightMax = 1000
	// LabelsMax limits the labels that a task requires or prefers, and the labels of a
	// node.
	LabelsMax = 32
	// TagsMax limits the tags of a task, and TagKeyBytesMax and TagValueBytesMax the
	// key and the value of each.
	TagsMax          = 16
	TagKeyBytesMax   = 63
	TagValueBytesMax = 256
	// CapacityMax limits the capacity of a node.
	CapacityMax = 1_000_000_000
	// ReturnWithinMax limits how long a node can ask others to wait for its return.
	ReturnWithinMax = 10 * time.Minute
	// TimeoutMax limits the time for a run, and the times of a retry policy.
	TimeoutMax = 100 * 365 * 24 * time.Hour
	// ProgressBytesMax limits the progress that a handler saves, as JSON.
	ProgressBytesMax = 256 << 10
	// PriorityMin and PriorityMax are the limits of a priority.
	PriorityMin, PriorityMax = -1000, 1000
	// SubmitBatchMax limits the tasks in one call of SubmitAll.
	SubmitBatchMax = 1_000_000
	// submitChunk limits the tasks that a client reads or writes in one call of the broker.
	submitChunk = 10_000
	// claimBatchMax limits the claims, and the endings, in one call of the coordinator.
	// A call spans several of the largest requests that a broker takes; adapters send
	// those side by side.
	claimBatchMax = 1000
	// commandsDoneMax limits the commands that a node remembers as carried out. A
	// sender whose reply was lost may send a command again after it was carried out and
	// deleted.
	commandsDoneMax = 10_000
	// callsInFlightMax limits the concurrent calls of the coordinator, for claims and
	// for endings each.
	callsInFlightMax = 2
)

// Times that no setting changes.
const (
	// reconcileEvery is the period after which a copy checks whether its watch has
	// missed anything.
	reconcileEvery = 2 * time.Minute
	// layoutReadEvery is the shortest time after which a client that writes reads the
	// layout version again.
	layoutReadEvery = time.Minute
	// retryClaim is the delay before a claim that failed at the broker is retried.
	retryClaim = 500 * time.Millisecond
	// retryEnd is the delay before endings that failed at the broker, and reads for a
	// task, are retried.
	retryEnd = 200 * time.Millisecond
	// movesMaxDefault limits the tasks that a node gives away in one round of
	// balancing.
	movesMaxDefault = 1000
	// failoverRateDefault is how many tasks per second a node takes over while most
	// nodes have vanished at once.
	failoverRateDefault = 200
	// loadEvery is how often a node reads its load.
	loadEvery = 5 * time.Second
	// drainTick is the interval at which a paced drain releases tasks.
	drainTick = schedule.DrainTick
	// drainRateDefault is how many tasks per second a drain releases.
	drainRateDefault = 200
	// drainWithinMax limits the time that a drain may be given.
	drainWithinMax = 24 * time.Hour
	// drainRateMax limits the rate that a command may ask for.
	drainRateMax = 100_000
)

// ConcurrencyMax is the highest concurrency limit of a task type on a node.
const ConcurrencyMax = 1_000_000

// countActive counts the runs whose handlers have not returned, by type. Runs that
// sleep or are paused do not count: they do not use up concurrency.
func (in *incarnation) countActive(r *run) {
	active := in.runs[r.claim.id] == r && (r.phase == phaseRunning || r.phase == phaseStopping)
	switch {
	case active == r.active:
	case active:
		in.fleet.Active(r.class().Type, 1)
	default:
		in.fleet.Active(r.class().Type, -1)
		in.board.RoomChanged()
	}
	r.active = active
}
