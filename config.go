package windlass

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/session"
)

// NamespaceDefault is the namespace where none is configured.
const NamespaceDefault = "/windlass"

// Config is how a node is made. Broker, Name and Handlers must be set; the zero
// value of everything else works.
type Config struct {
	// Broker is the store, for this node's use alone: one node, one
	// connection, because the watches of many nodes on one connection delay
	// each other by seconds. The node does not close it.
	Broker broker.Broker
	// Namespace separates clusters on one broker. Empty means
	// NamespaceDefault; surrounding slashes and spaces do not count.
	Namespace string
	// Name of the node, unique among the live nodes of the namespace: 1 to 128
	// bytes of printable UTF-8 without a slash. Empty means the host's name.
	Name string
	// Handlers make the handlers by type of task; AnyType stands for the types
	// that are not listed. Tasks of other types are left to other nodes.
	Handlers map[string]NewHandler
	// NewTask makes the application's own task type. Nil means that a task is
	// just its ID. With it, the node keeps the properties of all tasks in
	// memory, because it asks before it claims.
	NewTask NewTask
	// Balancer decides what to claim and to release. Nil means the same number
	// of tasks on every node.
	Balancer Balancer
	// SessionTTL is how long the node may be out of touch before others take
	// over; everything else about time derives from it, see session.Derive.
	// Zero means 15 s; 5 s to 300 s.
	SessionTTL time.Duration
	// ShutdownGrace is how long Run waits for handlers after its context ended.
	// Zero means the session's grace, 4 s for the default TTL.
	ShutdownGrace time.Duration
	// Zone, Labels and Capacity describe the node to others.
	Zone     string
	Labels   map[string]string
	Capacity int
	// Version is the application's, shown to operators.
	Version string
	// LogDir is where this node keeps the output of tasks, for clients on the
	// same host to find. Windlass itself writes nothing there.
	LogDir string
	// Events reports what happens. The zero value reports nothing.
	Events Events
	// Renewed, if set, is told after every renewal until when handlers may run,
	// as readings of Clock: when they are told to stop and when they must have
	// returned. It must not block.
	Renewed func(stop, hard time.Duration)
	// Fence, if set, is called when the hard deadline passes while handlers
	// have not returned; overdue returns the IDs of their tasks, as of each
	// call. It runs apart from the node's loop and may end the process; that is
	// the only sure way to stop a handler that ignores its context. Nil leaves
	// such handlers behind: what they write through Windlass is refused.
	Fence func(overdue func() []string)
	// Coordinator, if set, replaces or wraps the coordinator of each
	// incarnation.
	Coordinator func(plain coordinator.Coordinator) coordinator.Coordinator
	// Clock reads the clock that deadlines are kept by. Nil means the machine's
	// clock that runs through suspension; tests in virtual time need another.
	Clock func() time.Duration
}

// withDefaults returns the configuration with every default filled in, or says
// what is wrong with it.
func (c Config) withDefaults() (Config, keys.Space, error) {
	fail := func(err error) (Config, keys.Space, error) { return Config{}, keys.Space{}, err }
	if c.Broker == nil {
		return fail(badInput("broker", "", "must be set"))
	}
	if c.Namespace == "" {
		c.Namespace = NamespaceDefault
	}
	space, err := keys.New(c.Namespace)
	if err != nil {
		return fail(badName(err))
	}
	if c.Name == "" {
		if c.Name, err = os.Hostname(); err != nil {
			return fail(fmt.Errorf("node name: none is set and the host has none: %w", err))
		}
	}
	if err := keys.CheckNodeName(c.Name); err != nil {
		return fail(badName(err))
	}
	if err := session.CheckTTL(c.SessionTTL); err != nil {
		return fail(badInput("session TTL", c.SessionTTL, fmt.Sprintf("must be from %v to %v", session.TTLMin, session.TTLMax)))
	}
	if c.ShutdownGrace < 0 {
		return fail(badInput("shutdown grace", c.ShutdownGrace, "must not be negative"))
	}
	if c.Capacity < 0 {
		return fail(badInput("capacity", c.Capacity, "must not be negative"))
	}
	if err := c.checkHandlers(); err != nil {
		return fail(err)
	}
	if c.Balancer == nil {
		c.Balancer = even{}
	}
	return c, space, nil
}

func (c Config) checkHandlers() error {
	if len(c.Handlers) == 0 {
		return badInput("handlers", "", "at least one must be set")
	}
	for name, h := range c.Handlers {
		if h == nil {
			return badInput("handlers", name, "the handler must not be nil")
		}
		if name != "" && name != AnyType {
			if err := checkType(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// handler finds the maker for a type, nil if this node has none.
func (c Config) handler(taskType string) NewHandler {
	if h, ok := c.Handlers[taskType]; ok {
		return h
	}
	return c.Handlers[AnyType]
}

// NodeInfo is the registration of a node, as stored under nodes/<node>/info.
type NodeInfo struct {
	Name      string    `json:"name"`
	StartedAt time.Time `json:"started_at"`
	Version   string    `json:"version,omitempty"`
	Zone      string    `json:"zone,omitempty"`
	// Labels describe the node; Capacity is how many tasks it means to take,
	// zero for no limit of its own.
	Labels   map[string]string `json:"labels,omitempty"`
	Capacity int               `json:"capacity,omitempty"`
	// Types are the task types it has handlers for.
	Types []string `json:"types"`
	// SessionTTL is the granted one, as a duration such as "15s".
	SessionTTL string `json:"session_ttl"`
	// Incarnation names the node's present session.
	Incarnation string `json:"incarnation"`
	// Host is the machine it runs on, LogDir where it keeps the output of
	// tasks there.
	Host   string `json:"host,omitempty"`
	LogDir string `json:"log_dir,omitempty"`
	// Frozen nodes claim nothing and keep what they have; Draining ones give
	// it away.
	Frozen   bool `json:"frozen"`
	Draining bool `json:"draining"`
}

func (c Config) info(s *session.Session, started time.Time) NodeInfo {
	host, _ := os.Hostname() // it only helps people find the node
	return NodeInfo{
		Host: host, LogDir: c.LogDir,
		Name: c.Name, StartedAt: started.UTC(), Version: c.Version, Zone: c.Zone, Labels: c.Labels,
		Capacity: c.Capacity, Types: slices.Sorted(maps.Keys(c.Handlers)),
		SessionTTL: s.Timing().TTL.String(), Incarnation: s.Incarnation(),
	}
}

func (i NodeInfo) encode() []byte {
	value, err := json.Marshal(i)
	if err != nil {
		return nil // cannot be: strings, numbers and times before the year 10000
	}
	return value
}
