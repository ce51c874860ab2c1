package schedule

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/placement"
)

// Peer is another registered node.
type Peer struct {
	// Node is the peer for the planner. Closed is set while it takes nothing.
	placement.Node
	// Incarnation is the session that it is registered with.
	Incarnation string
	// The reasons why it takes nothing, if it does not. A Returning node is being
	// stopped and intends to come back.
	Frozen, Cordoned, Draining, Returning, Overloaded bool
	// ReturnWithin is how long its tasks are kept for it when it goes; zero means not
	// at all.
	ReturnWithin time.Duration
	// ShortLived lists the types that it reports as short-lived.
	ShortLived []string
}

// Takes reports whether the peer currently takes tasks of a class.
func (p *Peer) Takes(c *placement.Class) bool { return p.Closed == "" && p.Excludes(c) == "" }

// Config is what a Fleet needs to know of its node.
type Config struct {
	// Name is that of the node.
	Name string
	// Limits limits how many tasks of a type the node runs at a time, as in
	// placement.Node.
	Limits map[string]int
	// TTL is the TTL of the node's session: the others notice within it that nodes
	// which die together are gone.
	TTL time.Duration
	// FailoverRate is how many tasks per second the node takes over while most others
	// have vanished at once. It is at least one.
	FailoverRate int
}

// Fleet is the cluster as one node knows it.
//
// The tally counts each claim once: claims of other nodes from the store, and those of
// this node from its own knowledge. It counts each task on its way to another node as
// that node's.
type Fleet struct {
	config Config
	// peers are the other registered nodes, by name.
	peers []Peer
	// nodes are the nodes of the last View, this node first.
	nodes []placement.Node

	tally placement.Tally
	// active counts the handlers that have not returned, claiming the claims in flight,
	// by type.
	active, claiming map[string]int

	lifetimes lifetimes
	// away has the nodes that are gone and are to be back, by name.
	away  map[string]Away
	brake brake
	// claimedAt is when a node was last seen to claim a task. overdue has the nodes
	// that another node stood in for since then.
	claimedAt map[string]time.Time
	overdue   map[string]bool

	// listedAt is when the nodes were first listed, zero for not yet. ownRevision is
	// the revision of what this node first published after it.
	listedAt    time.Time
	ownRevision broker.Revision
}

// NewFleet returns the fleet of a node that knows no other yet.
func NewFleet(config Config) *Fleet {
	return &Fleet{
		config: config, nodes: make([]placement.Node, 1), active: map[string]int{}, claiming: map[string]int{},
		away: map[string]Away{}, brake: newBrake(config.FailoverRate),
		claimedAt: map[string]time.Time{}, overdue: map[string]bool{},
	}
}

// Change is the effect of a new list of peers.
type Change struct {
	// Joined is true if a node now takes tasks that was absent before, or took none.
	Joined bool
	// Same is true if the set of nodes that take tasks is unchanged.
	Same bool
	// Back lists the nodes that are back and whose tasks were kept for them.
	Back []string
	// ShortLived is true if the set of short-lived types has changed.
	ShortLived bool
	// Braked is how many nodes have vanished if the brake is applied because of it.
	Braked int
}

// Update replaces the peers, by name. last returns the last registration of a node that
// is gone, if it is known: the node may have announced that it would go in the same
// batch of changes.
func (f *Fleet) Update(peers []Peer, last func(name string) (Peer, bool), now time.Time) Change {
	before := f.peers
	f.peers, f.nodes = peers, make([]placement.Node, 1, len(peers)+1)
	for i := range peers {
		f.nodes = append(f.nodes, peers[i].Node)
	}
	c := compareTakers(before, peers)
	c.ShortLived = f.unite()
	for i := range peers {
		name := peers[i].Name
		if _, away := f.away[name]; away {
			delete(f.away, name)
			c.Back = append(c.Back, name)
		}
		delete(f.brake.vanished, name)
	}
	for _, p := range before {
		if f.Peer(p.Name) != nil {
			continue
		}
		delete(f.claimedAt, p.Name)
		delete(f.overdue, p.Name)
		if said, ok := last(p.Name); ok {
			p = said
		}
		if p.ReturnWithin > 0 && !p.Draining && !p.Cordoned {
			f.away[p.Name] = Away{Node: p.Node, Until: now.Add(p.ReturnWithin)}
		}
		if p.Closed == "" {
			f.brake.vanished[p.Name] = now
		}
	}
	c.Braked = f.brake.decide(f.Size(), now.Add(-2*f.config.TTL), now)
	return c
}

// compareTakers compares the nodes that take tasks. A node that was only overloaded has
// not joined when it takes tasks again.
func compareTakers(before, now []Peer) Change {
	type taker struct{ name, incarnation string }
	were := map[taker]bool{}
	for i := range before {
		if p := &before[i]; p.Closed == "" || p.Overloaded {
			were[taker{p.Name, p.Incarnation}] = p.Closed == ""
		}
	}
	c := Change{Same: true}
	for i := range now {
		p := &now[i]
		took, known := were[taker{p.Name, p.Incarnation}]
		takes := p.Closed == ""
		c.Joined = c.Joined || takes && !known
		c.Same = c.Same && takes == took
		delete(were, taker{p.Name, p.Incarnation})
	}
	for _, took := range were {
		c.Same = c.Same && !took
	}
	return c
}

// Peers returns the other registered nodes, by name. The caller must not modify them.
func (f *Fleet) Peers() []Peer { return f.peers }

// Peer returns another registered node by its name, nil if there is none. The caller
// must not modify it.
func (f *Fleet) Peer(name string) *Peer {
	if i, ok := sort.Find(len(f.peers), func(i int) int { return cmp.Compare(name, f.peers[i].Name) }); ok {
		return &f.peers[i]
	}
	return nil
}

// Size returns how many nodes there are, this one included.
func (f *Fleet) Size() int { return len(f.peers) + 1 }

// AnyTakes reports whether another node currently takes tasks of a class.
func (f *Fleet) AnyTakes(c *placement.Class) bool {
	return slices.ContainsFunc(f.peers, func(p Peer) bool { return p.Takes(c) })
}

// Listed records that the nodes are listed.
func (f *Fleet) Listed(now time.Time) (first bool) {
	if first = f.listedAt.IsZero(); first {
		f.listedAt = now
	}
	return first
}

// Published records a revision at which this node has published something.
func (f *Fleet) Published(revision broker.Revision) {
	if f.ownRevision == 0 {
		f.ownRevision = revision
	}
}

// completeWithin is how long a node waits to be sure that it knows the others. The wait
// only prevents tasks from moving once more.
const completeWithin = time.Second

// Complete reports whether the copy of the nodes, which has reached a revision, has all
// nodes that had registered before this one listed them. A watch that has just begun
// can lag by a tenth of a second, and until then this node would plan as if it were
// alone.
func (f *Fleet) Complete(revision broker.Revision, now time.Time) bool {
	switch {
	case f.listedAt.IsZero():
		return false
	case f.ownRevision > 0 && revision >= f.ownRevision:
		return true
	}
	return now.Sub(f.listedAt) >= completeWithin
}

// SeenToClaim records that a node has claimed a task.
func (f *Fleet) SeenToClaim(node string, now time.Time) {
	f.claimedAt[node] = now
	delete(f.overdue, node)
}

// ClaimedAt returns when a node was last seen to claim a task, zero for never.
func (f *Fleet) ClaimedAt(node string) time.Time { return f.claimedAt[node] }

// StoodInFor records that a task is claimed in a node's stead.
func (f *Fleet) StoodInFor(node string) { f.overdue[node] = true }

// Overdue reports whether another node stood in for a node since that was last seen to
// claim a task.
func (f *Fleet) Overdue(node string) bool { return f.overdue[node] }
