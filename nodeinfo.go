package windlass

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/placement"
	"github.com/windlass-go/windlass/session"
)

// NodeInfo is the registration of a node, as stored under nodes/<node>/info.
type NodeInfo struct {
	Name      string    `json:"name"`
	StartedAt time.Time `json:"started_at"`
	Version   string    `json:"version"`
	Zone      string    `json:"zone"`
	// Labels, Weight and Capacity are as configured. A weight of 0 is that of a node which is too old to report it.
	Labels   map[string]string `json:"labels"`
	Weight   int               `json:"weight,omitempty"`
	Capacity int               `json:"capacity"`
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
	Host   string `json:"host"`
	LogDir string `json:"log_dir"`
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
	// minute, as a duration such as "4s", a power of two. It is empty below a second. While it
	// lags, a node claims nothing that another node should have.
	Behind string `json:"behind,omitempty"`
	// SlowRenewal is how long the slowest renewal of its session within the last ten
	// minutes took, as a duration such as "1.5s". It is empty if each took less than a
	// quarter of session.Timing.Try. It is published up to a minute later.
	SlowRenewal string `json:"slow_renewal,omitempty"`
	// ShortLived lists the types whose tasks recently ended about as soon as they began
	// on this node, sorted. Every node places the types that any node lists by task
	// name alone.
	ShortLived []string `json:"short_lived,omitempty"`
	// A Returning node is being stopped and intends to come back.
	Returning bool `json:"returning,omitempty"`
	// Probation is set while the node is given nothing, because it has died repeatedly: until
	// then, or until no other node takes tasks.
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

// Placed returns the node as the planner sees it. Values that another program wrote
// out of their range are replaced by the nearest one allowed.
func (i *NodeInfo) Placed() placement.Node {
	return placement.Node{
		Name: i.Name, Types: i.Types, Zone: i.Zone, Labels: i.Labels, Weight: min(max(i.Weight, 0), WeightMax),
		Capacity: min(max(i.Capacity, 0), CapacityMax), Closed: i.closed(),
		Limits: i.Limits, Pulls: i.Pulls,
	}
}

// Validate returns a *BadInputError if NewNode would refuse the name, capacity, weight or labels.
func (i *NodeInfo) Validate() error {
	if err := keys.CheckNodeName(i.Name); err != nil {
		return err
	}
	return Config{Capacity: i.Capacity, Weight: i.Weight, Labels: i.Labels}.checkPlacement()
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

// returnWithin returns how long the others leave the node's tasks alone when it goes.
func (i *NodeInfo) returnWithin() time.Duration {
	d, err := time.ParseDuration(i.ReturnWithin)
	if err != nil {
		return 0
	}
	return min(max(d, 0), ReturnWithinMax)
}

func (i NodeInfo) encode() []byte {
	value, err := json.Marshal(i)
	if err != nil {
		return nil // cannot be: strings, numbers and times before the year 10000
	}
	return value
}

// holderTTL returns the TTL in a node's registration, or the longest TTL possible.
func holderTTL(info []byte) time.Duration {
	var i NodeInfo
	if json.Unmarshal(info, &i) == nil {
		if ttl, err := time.ParseDuration(i.SessionTTL); err == nil && ttl > 0 {
			return ttl
		}
	}
	return session.TTLMax
}
