package placement

import (
	"cmp"
	"slices"
)

// Move is a number of tasks that should go from one node to another.
type Move struct {
	From, To string
	// Like is one class of these tasks. They are of all classes that differ from it
	// only in group and preferences.
	Like  *Class
	Tasks int
}

// Covers reports whether tasks of a class are among those that move.
func (m Move) Covers(c *Class) bool { return c.pool == m.Like.pool }

// Moves returns the tasks that should move to balance the nodes, most urgent first, at
// most that many tasks. Unless tolerance is 0, it returns none if no move helps a node
// that is further from its fair share than the tolerance, a fraction of that share of
// at least 0, plus one task.
func (p *Plan) Moves(most int, tolerance float64) []Move {
	if p.level() {
		return nil
	}
	m := mover{plan: p, loads: slices.Clone(p.loads), loadsOf: p.loadsOf.clone(), fair: p.fairShares(), index: map[route]int{}}
	for i := range p.nodes {
		d, byPool := donor{at: i}, map[string]*held{}
		for c, n := range p.view.Held.Of(p.nodes[i].Name).Classes {
			if p.view.ShortLived[c.Type] {
				continue
			}
			if byPool[c.pool] == nil {
				byPool[c.pool] = &held{pool: p.pool(c)}
				d.pools = append(d.pools, byPool[c.pool])
			}
			byPool[c.pool].tasks += n
		}
		slices.SortFunc(d.pools, func(a, b *held) int {
			return cmp.Or(cmp.Compare(b.pool.class.Weight, a.pool.class.Weight), cmp.Compare(a.pool.class.pool, b.pool.class.pool))
		})
		m.donors = append(m.donors, d)
	}
	for range most {
		if !m.next() {
			break
		}
	}
	if tolerance > 0 && !m.worthIt(tolerance) {
		return nil
	}
	return m.moves
}

// level reports that not even the move of a task of weight 1 could help, whichever
// nodes can run it. This is nearly always so, and quick to find out.
func (p *Plan) level() bool {
	high, low := -1, -1
	for i := range p.nodes {
		n := &p.nodes[i]
		if high < 0 || p.loads[i]*p.nodes[high].weight() > p.loads[high]*n.weight() {
			high = i
		}
		if low < 0 || (p.loads[i]+1)*p.nodes[low].weight() < (p.loads[low]+1)*n.weight() {
			low = i
		}
	}
	return high < 0 || (p.loads[low]+1)*p.nodes[high].weight() >= p.loads[high]*p.nodes[low].weight()
}

// worthIt reports whether some move helps a node that is out of its bounds.
func (m *mover) worthIt(tolerance float64) bool {
	for r := range m.index {
		from, to := m.fair[r.from], m.fair[r.to]
		if float64(m.plan.loads[r.from]) > from*(1+tolerance)+1 || float64(m.plan.loads[r.to]) < to*(1-tolerance)-1 {
			return true
		}
	}
	return false
}

// fairShares returns the loads in proportion to the weights.
func (p *Plan) fairShares() []float64 {
	total, weights := 0, 0
	for i := range p.nodes {
		total += p.loads[i]
		weights += p.nodes[i].weight()
	}
	fair := make([]float64, len(p.nodes))
	for i := range fair {
		fair[i] = float64(total) * float64(p.nodes[i].weight()) / float64(weights)
	}
	return fair
}

// mover makes moves one by one.
type mover struct {
	plan    *Plan
	loads   []int
	loadsOf typed
	fair    []float64
	donors  []donor
	moves   []Move
	index   map[route]int // place in moves
}

type route struct {
	from, to int
	pool     *pool
}

// donor is a node that may give tasks away, and the tasks it holds.
type donor struct {
	at    int
	pools []*held // the heaviest first
}

type held struct {
	pool  *pool
	tasks int
}

// next makes the move that helps the most loaded node, and returns false if there is
// none.
func (m *mover) next() bool {
	for len(m.donors) > 0 {
		most := 0
		for k := range m.donors {
			if m.fuller(m.donors[k].at, m.donors[most].at) {
				most = k
			}
		}
		if at := m.donors[most].at; float64(m.loads[at]) <= m.fair[at] {
			return false // and so are all others
		}
		if m.moveFrom(&m.donors[most]) {
			return true
		}
		// The loads of receivers only rise from here on, so this node will not find a
		// receiver later either.
		m.donors = slices.Delete(m.donors, most, most+1)
	}
	return false
}

// fuller compares two nodes by their load for their weight.
func (m *mover) fuller(i, j int) bool {
	left, right := m.loads[i]*m.plan.nodes[j].weight(), m.loads[j]*m.plan.nodes[i].weight()
	return left > right || (left == right && i < j)
}

func (m *mover) moveFrom(d *donor) bool {
	for _, h := range d.pools {
		if h.tasks == 0 {
			continue
		}
		to := m.receiver(d.at, h.pool)
		if to < 0 {
			continue
		}
		h.tasks--
		m.loads[d.at] -= h.pool.class.Weight
		m.loads[to] += h.pool.class.Weight
		m.loadsOf.add(d.at, h.pool.class.Type, -1)
		m.loadsOf.add(to, h.pool.class.Type, 1)
		m.record(d.at, to, h.pool)
		return true
	}
	return false
}

// receiver returns the node that is the least loaded with a task of the pool, if it is
// then less loaded than the giver was before; -1 for none.
func (m *mover) receiver(from int, q *pool) int {
	each, best := q.class.Weight, -1
	for _, i := range q.eligible {
		n := &m.plan.nodes[i]
		if i == from || (n.Capacity > 0 && m.loads[i]+each > n.Capacity) || m.loadsOf.room(m.plan.nodes, i, q.class.Type) == 0 {
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

func (m *mover) record(from, to int, q *pool) {
	r := route{from: from, to: to, pool: q}
	k, ok := m.index[r]
	if !ok {
		k = len(m.moves)
		m.index[r] = k
		m.moves = append(m.moves, Move{From: m.plan.nodes[from].Name, To: m.plan.nodes[to].Name, Like: q.class})
	}
	m.moves[k].Tasks++
}

// Imbalance returns the highest load relative to weight divided by the mean, minus one:
// 0 is even, 1 means a node with twice its share. It is 0 without tasks.
func (p *Plan) Imbalance() float64 {
	worst := 0.0
	for i, fair := range p.fairShares() {
		if fair > 0 {
			worst = max(worst, float64(p.loads[i])/fair-1)
		}
	}
	return worst
}

// Load returns the weight that a node will hold when every open task is placed.
func (p *Plan) Load(node string) int {
	if i, ok := slices.BinarySearchFunc(p.nodes, Node{Name: node}, byName); ok {
		return p.loads[i]
	}
	return p.view.Held.Of(node).Weight
}
