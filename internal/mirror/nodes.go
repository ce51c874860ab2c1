package mirror

import (
	"cmp"
	"maps"
	"slices"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// Node is what is known of a registered node.
type Node struct {
	// Name of the node.
	Name string
	// Info is its registration, as stored; Registered, Session and the revisions are
	// those of its key. They are unset if only commands or a cordon remain.
	Info              []byte
	Registered        bool
	Session           broker.SessionID
	Created, Modified broker.Revision
	// Cordoned is true if it has a cordon, and Cordon is the value of that.
	Cordoned bool
	Cordon   []byte
	// Return is its promise to be back, as stored; its Modified is zero for none.
	Return broker.KV

	commands map[string]Command
	// deaths has the records of the node's deaths, by incarnation.
	deaths map[string]broker.KV
}

// Command is a command that waits for its node.
type Command struct {
	// Key is its full key, Value the value written.
	Key   string
	Value []byte
	// Created orders commands.
	Created broker.Revision
}

// Commands returns the waiting commands in the order in which they were sent.
func (n *Node) Commands() []Command {
	return slices.SortedFunc(maps.Values(n.commands), func(a, b Command) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Key, b.Key))
	})
}

// Nodes is the copy of nodes/. It is not safe for concurrent use.
type Nodes struct {
	space    keys.Space
	revision broker.Revision
	nodes    map[string]*Node
	// gone has the registrations that the last update removed, by name.
	gone map[string]Gone
	// paused has the pauses of types, by type. pausesChanged is as deathsChanged.
	paused        map[string][]byte
	pausesChanged bool
	// deathsChanged is true if a record of a death was added or removed since it was last
	// asked for.
	deathsChanged bool
	// returnsChanged is as deathsChanged.
	returnsChanged bool
}

// Gone is a registration that was removed.
type Gone struct {
	// Info is its last value, Session the session that it belonged to.
	Info    []byte
	Session broker.SessionID
	// At is the revision at which it was removed.
	At broker.Revision
}

// NewNodes returns an empty copy.
func NewNodes(space keys.Space) *Nodes {
	return &Nodes{space: space, nodes: map[string]*Node{}, gone: map[string]Gone{}, paused: map[string][]byte{}}
}

// Revision returns the revision up to which the copy is complete, zero before the first
// snapshot.
func (m *Nodes) Revision() broker.Revision { return m.revision }

// Get returns a node, or nil. The result must not be kept across updates.
func (m *Nodes) Get(name string) *Node { return m.nodes[name] }

// Gone returns a node's registration if the last update removed it.
func (m *Nodes) Gone(name string) (g Gone, ok bool) {
	g, ok = m.gone[name]
	return g, ok
}

// Deaths yields the records of deaths: the name of the node, the incarnation that died
// and the record, in no particular order.
func (m *Nodes) Deaths(yield func(node, incarnation string, kv broker.KV)) {
	for _, n := range m.nodes {
		for incarnation, kv := range n.deaths {
			yield(n.Name, incarnation, kv)
		}
	}
}

// HasDeaths reports whether there are records of deaths.
func (m *Nodes) HasDeaths() (has bool) {
	m.Deaths(func(string, string, broker.KV) { has = true })
	return has
}

// DeathsChanged reports whether the records of deaths have changed since it was called
// last.
func (m *Nodes) DeathsChanged() (changed bool) {
	changed, m.deathsChanged = m.deathsChanged, false
	return changed
}

// Paused returns the pauses of types, as stored, by type. The caller must not modify it,
// or keep it across updates.
func (m *Nodes) Paused() map[string][]byte { return m.paused }

// PauseOf returns the pause of a type, as stored, and whether there is one.
func (m *Nodes) PauseOf(taskType string) (value []byte, paused bool) {
	value, paused = m.paused[taskType]
	return value, paused
}

// PausesChanged reports whether the pauses of types have changed since it was called
// last.
func (m *Nodes) PausesChanged() (changed bool) {
	changed, m.pausesChanged = m.pausesChanged, false
	return changed
}

// ReturnsChanged reports whether it has changed since it was called last which nodes are Away,
// or what they have promised.
func (m *Nodes) ReturnsChanged() (changed bool) {
	changed, m.returnsChanged = m.returnsChanged, false
	return changed
}

// Away returns the nodes that are not registered, have promised to be back, and have no cordon, by
// name.
func (m *Nodes) Away() []*Node {
	return m.filter(func(n *Node) bool { return !n.Registered && n.promises() && !n.Cordoned })
}

// Promised returns the nodes that have promised to be back, registered or not, by name.
func (m *Nodes) Promised() []*Node { return m.filter((*Node).promises) }

func (n *Node) promises() bool { return n.Return.Modified != 0 }

// Registered returns the registered nodes, by name.
func (m *Nodes) Registered() []*Node { return m.filter(func(n *Node) bool { return n.Registered }) }

// Cordoned returns the nodes that have a cordon, registered or not, by name.
func (m *Nodes) Cordoned() []*Node { return m.filter(func(n *Node) bool { return n.Cordoned }) }

func (m *Nodes) filter(wanted func(*Node) bool) (nodes []*Node) {
	for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
		if n := m.nodes[name]; wanted(n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Apply applies a batch of a watch and returns the names of the nodes whose
// registration it changed, each once.
func (m *Nodes) Apply(batch broker.Batch) []string {
	var changed []string
	m.gone = map[string]Gone{}
	for _, e := range batch.Events {
		if name, ok := m.event(e); ok {
			changed = append(changed, name)
		}
	}
	m.revision = max(m.revision, batch.Revision)
	return dedupe(changed)
}

// Reset replaces the copy by a snapshot and returns the names of the nodes whose
// registration differs from the copy before.
func (m *Nodes) Reset(snapshot *Snapshot) []string {
	before := m.nodes
	m.nodes, m.gone, m.deathsChanged = map[string]*Node{}, map[string]Gone{}, true
	m.paused, m.pausesChanged, m.returnsChanged = map[string][]byte{}, true, true
	for _, kv := range snapshot.KVs {
		m.event(broker.Event{KV: kv})
	}
	m.revision = snapshot.Revision
	var changed []string
	for name, now := range m.nodes {
		if was := before[name]; was == nil || was.Modified != now.Modified {
			changed = append(changed, name)
		}
	}
	for name := range before {
		if m.nodes[name] == nil {
			changed = append(changed, name)
		}
	}
	return changed
}

func (m *Nodes) event(e broker.Event) (name string, registration bool) {
	p := m.space.Parse(e.KV.Key)
	if p.Kind == keys.TypePause {
		if m.pausesChanged = true; e.Deleted {
			delete(m.paused, p.Name)
		} else {
			m.paused[p.Name] = e.KV.Value
		}
		return "", false
	}
	switch p.Kind {
	case keys.NodeInfo, keys.NodeCordon, keys.NodeReturn, keys.NodeCommand, keys.NodeDeath:
	default:
		return "", false
	}
	n := m.nodes[p.Name]
	if n == nil {
		if e.Deleted {
			return "", false
		}
		n = &Node{Name: p.Name, commands: map[string]Command{}, deaths: map[string]broker.KV{}}
		m.nodes[p.Name] = n
	}
	switch {
	case p.Kind == keys.NodeInfo && e.Deleted:
		m.gone[n.Name] = Gone{Info: n.Info, Session: n.Session, At: e.KV.Modified}
		*n = Node{Name: n.Name, Cordoned: n.Cordoned, Cordon: n.Cordon, Return: n.Return, commands: n.commands, deaths: n.deaths}
	case p.Kind == keys.NodeInfo:
		n.Info, n.Registered, n.Session = e.KV.Value, true, e.KV.Session
		n.Created, n.Modified = e.KV.Created, e.KV.Modified
	case p.Kind == keys.NodeCordon:
		n.Cordoned, n.Cordon = !e.Deleted, e.KV.Value
	case p.Kind == keys.NodeReturn:
		if n.Return = e.KV; e.Deleted {
			n.Return = broker.KV{}
		}
	case p.Kind == keys.NodeDeath && e.Deleted:
		delete(n.deaths, p.Incarnation)
	case p.Kind == keys.NodeDeath:
		n.deaths[p.Incarnation] = e.KV
	case e.Deleted:
		delete(n.commands, p.Command)
	default:
		n.commands[p.Command] = Command{Key: e.KV.Key, Value: e.KV.Value, Created: e.KV.Created}
	}
	m.deathsChanged = m.deathsChanged || p.Kind == keys.NodeDeath
	m.returnsChanged = m.returnsChanged || p.Kind == keys.NodeReturn || p.Kind == keys.NodeCordon || n.promises()
	if !n.Registered && !n.Cordoned && !n.promises() && len(n.commands)+len(n.deaths) == 0 {
		delete(m.nodes, p.Name)
	}
	return p.Name, p.Kind == keys.NodeInfo
}
