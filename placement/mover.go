package placement

import (
	"cmp"
	"slices"

	"github.com/windlass-go/windlass/internal/heap"
)

// mover makes moves one by one.
type mover struct {
	plan    *Plan
	loads   []int
	loadsOf typed
	fair    []float64
	// giving are the nodes that may have more to give. donors has what they hold, by node, nil
	// if nobody has asked yet.
	giving []int
	donors []*donor
	// groups counts the tasks of groups where they are after the moves, and assigned those that
	// are about to be claimed, by node.
	groups   map[string]*spread
	assigned map[string]map[int]int
	// exchanging has the nodes to or from which a task moves in exchange for another one.
	exchanging map[int]bool

	moves []Move
	index map[route]int // place in moves
}

type route struct {
	from, to int
	bundle   bundleKey
}

// donor is a node that may give tasks away, and the tasks it holds.
type donor struct {
	at    int
	pools []*held // the heaviest first
	// grouped is set if some of the tasks are in groups.
	grouped bool
}

// held are the tasks of a pool that a node holds.
type held struct {
	at    int // the node
	pool  *pool
	tasks int
	plain *bundle // those in no group, nil for none
	// groups are the others, by name.
	groups []*bundle
	// next has those of groups by how good they are to move to a node.
	next map[int]*heap.Heap[ranked]
	// stuck has the nodes that should have none of them.
	stuck map[int]bool
}

// bundle are the tasks of a pool and a group, or of none, that a node holds.
type bundle struct {
	held    *held
	group   string
	classes []*Class
	tasks   int
	// prefers is set if some of them prefer labels.
	prefers bool
}

// bundleKey identifies a bundle of a node.
type bundleKey struct {
	pool  *pool
	group string
}

func newMover(p *Plan) *mover {
	m := &mover{plan: p, donors: make([]*donor, len(p.nodes)), loads: slices.Clone(p.loads), loadsOf: p.loadsOf.clone(), fair: p.fairShares(), groups: map[string]*spread{}, assigned: map[string]map[int]int{}, index: map[route]int{}, exchanging: map[int]bool{}}
	for i := range p.nodes {
		m.giving = append(m.giving, i)
	}
	for c, byNode := range p.view.Assigned {
		for name, tasks := range byNode {
			if i, open := p.at(name); open && c.Group != "" {
				if m.assigned[c.Group] == nil {
					m.assigned[c.Group] = map[int]int{}
				}
				m.assigned[c.Group][i] += tasks
			}
		}
	}
	return m
}

// donor sorts what a node holds, once.
func (m *mover) donor(i int) *donor {
	if m.donors[i] != nil {
		return m.donors[i]
	}
	p := m.plan
	d, byPool, bundles := &donor{at: i}, map[string]*held{}, map[bundleKey]*bundle{}
	for c, n := range p.view.Held.Of(p.nodes[i].Name).Classes {
		if p.view.ShortLived[c.Type] {
			continue
		}
		h := byPool[c.pool]
		if h == nil {
			h = &held{at: i, pool: p.pool(c), next: map[int]*heap.Heap[ranked]{}, stuck: map[int]bool{}}
			byPool[c.pool] = h
			d.pools = append(d.pools, h)
		}
		b := bundles[bundleKey{h.pool, c.Group}]
		if b == nil {
			b = &bundle{held: h, group: c.Group}
			bundles[bundleKey{h.pool, c.Group}] = b
			if c.Group == "" {
				h.plain = b
			} else {
				h.groups, d.grouped = append(h.groups, b), true
			}
		}
		h.tasks, b.tasks = h.tasks+n, b.tasks+n
		b.classes, b.prefers = append(b.classes, c), b.prefers || len(c.Prefer) > 0
	}
	slices.SortFunc(d.pools, func(a, b *held) int {
		return cmp.Or(cmp.Compare(b.pool.class.Weight, a.pool.class.Weight), cmp.Compare(a.pool.class.pool, b.pool.class.pool))
	})
	for _, h := range d.pools {
		slices.SortFunc(h.groups, func(a, b *bundle) int { return cmp.Compare(a.group, b.group) })
	}
	m.donors[i] = d
	return d
}

// next makes the move that helps the most loaded node, and returns false if there is
// none.
func (m *mover) next() bool {
	for len(m.giving) > 0 {
		most := 0
		for k := range m.giving {
			if m.fuller(m.giving[k], m.giving[most]) {
				most = k
			}
		}
		if at := m.giving[most]; float64(m.loads[at]) <= m.fair[at] {
			return false // and so are all others
		}
		if m.moveFrom(m.donor(m.giving[most])) {
			return true
		}
		// The loads of receivers only rise from here on, so this node will not find a
		// receiver later either.
		m.giving = slices.Delete(m.giving, most, most+1)
	}
	return false
}

// fuller compares two nodes by their load for their weight.
func (m *mover) fuller(i, j int) bool {
	left, right := m.loads[i]*m.plan.nodes[j].weight(), m.loads[j]*m.plan.nodes[i].weight()
	return left > right || (left == right && i < j)
}

// moveFrom moves one of the heaviest tasks of a node that can move, and of equally heavy ones that
// which is the best for its group.
func (m *mover) moveFrom(d *donor) bool {
	var best ranked
	to := -1
	for _, h := range d.pools {
		if to >= 0 && (!d.grouped || h.pool.class.Weight < best.held.pool.class.Weight) {
			break
		}
		if now, at := m.bestOf(h); at >= 0 && (to < 0 || now.better(best)) {
			best, to = now, at
		}
	}
	if to >= 0 {
		m.move(best.bundle, d.at, to)
	}
	return to >= 0
}

// bestOf returns what of a pool should move, and to which node; -1 for none.
func (m *mover) bestOf(h *held) (best ranked, to int) {
	if h.tasks == 0 {
		return best, -1
	}
	for to = m.receiver(h.at, h); to >= 0; to = m.receiver(h.at, h) {
		if best = m.pick(h, h.at, to); best.bundle != nil {
			break
		}
		h.stuck[to] = true
	}
	return best, to
}

// receiver returns the node that is the least loaded with one more task of those that a
// node holds, if it is then less loaded than the giver was before; -1 for none.
func (m *mover) receiver(from int, h *held) int {
	each, best := h.pool.class.Weight, -1
	for _, i := range h.pool.eligible {
		n := &m.plan.nodes[i]
		if i == from || h.stuck[i] || !m.hasRoom(i, h.pool) {
			continue
		}
		if best < 0 || (m.loads[i]+each)*m.plan.nodes[best].weight() < (m.loads[best]+each)*n.weight() {
			best = i
		}
	}
	if best < 0 || (m.loads[best]+each)*m.plan.nodes[from].weight() >= m.loads[from]*m.plan.nodes[best].weight() {
		return -1
	}
	return best
}

// hasRoom reports whether a node may have one more task of a pool.
func (m *mover) hasRoom(i int, q *pool) bool {
	n := &m.plan.nodes[i]
	return (n.Capacity == 0 || m.loads[i]+q.class.Weight <= n.Capacity) && m.loadsOf.room(m.plan.nodes, i, q.class.Type) > 0
}

// move moves a task of a bundle.
func (m *mover) move(b *bundle, from, to int) {
	q := b.held.pool
	b.tasks--
	b.held.tasks--
	m.loads[from] -= q.class.Weight
	m.loads[to] += q.class.Weight
	m.loadsOf.add(from, q.class.Type, -1)
	m.loadsOf.add(to, q.class.Type, 1)
	if b.group != "" {
		s := m.spreadOf(b.group)
		s.add(&m.plan.nodes[from], -1)
		s.add(&m.plan.nodes[to], 1)
	}
	m.record(from, to, b)
}

func (m *mover) record(from, to int, b *bundle) {
	r := route{from: from, to: to, bundle: bundleKey{b.held.pool, b.group}}
	k, ok := m.index[r]
	if !ok {
		k = len(m.moves)
		m.index[r] = k
		m.moves = append(m.moves, Move{From: m.plan.nodes[from].Name, To: m.plan.nodes[to].Name, Like: b.classes[0]})
	}
	m.moves[k].Tasks++
}

// spreadOf counts a group once, with the open tasks that are assigned.
func (m *mover) spreadOf(group string) *spread {
	s := m.groups[group]
	if s == nil {
		s = m.plan.counted(group)
		for i, tasks := range m.assigned[group] {
			s.add(&m.plan.nodes[i], tasks)
		}
		m.groups[group] = s
	}
	return s
}
