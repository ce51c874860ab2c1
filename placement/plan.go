package placement

import (
	"cmp"
	"slices"
)

// View is the cluster at one moment.
type View struct {
	// Nodes lists the registered nodes.
	Nodes []Node
	// Away lists nodes that are gone and are to be back. What is kept for them is their part of
	// the load. They get and give nothing.
	Away []Node
	// Held counts what the nodes hold, and what is kept for those that are away.
	Held *Tally
	// Open counts the tasks that no node holds and that could run now, by class.
	Open map[*Class]int
	// Leaving counts the tasks that are about to be open, because a draining node holds
	// them.
	Leaving map[*Class]int
	// Assigned counts those of the open tasks of groups by the node that is to claim them, as far
	// as that is known.
	Assigned map[*Class]map[string]int
	// ShortLived lists the types whose tasks end about as soon as they have begun. By the
	// time others learn what a node holds of them, it has changed. So they do not count
	// as load, and they are assigned by name.
	ShortLived map[string]bool
}

// Plan says, for one moment, how many of the open tasks each node gets.
type Plan struct {
	nodes  []Node // those that are not closed, by name
	hashes []uint64
	// held has the weights that the nodes hold, and loads those they will hold when
	// every open and leaving task is placed.
	held, loads []int
	// levels has the weights that the nodes hold or were assigned, without short-lived tasks.
	levels []int
	// heldOf and loadsOf are the same by type, for limits.
	heldOf, loadsOf typed
	pools           map[string]*pool
	view            View
	// groups counts the tasks of the groups that Take was called for.
	groups map[string]*spread
	// unplaced is the weight of the open tasks that fit nowhere.
	unplaced int
}

// pool has the tasks that the same nodes can run and that weigh the same.
type pool struct {
	class *Class // any of them: Type, Weight, Require and Node are the same
	// eligible are the positions of the nodes that can run them, quota how many more of
	// the open tasks each gets.
	eligible, quota []int
	open            int
	// shortLived is true if they end about as soon as they have begun.
	shortLived bool
	// capped is true if one of these nodes has a capacity. Quotas then decide how many
	// tasks each gets, because heavy tasks are placed first.
	capped bool
	// reserved is, by node, the weight that pools with as few eligible nodes still have
	// to assign; before is that of pools with fewer.
	reserved []int
	before   [][]int
	// spread is true if some of them are in a group, whose spread takes precedence over
	// quotas.
	spread bool
	// byName is true if they are assigned by their names alone.
	byName bool
}

// New returns the plan for a view.
func New(v View) *Plan {
	p := &Plan{pools: map[string]*pool{}, view: v, groups: map[string]*spread{}}
	for _, n := range v.Nodes {
		if n.Closed == "" && len(n.Types) > 0 {
			p.nodes = append(p.nodes, n)
		}
	}
	slices.SortFunc(p.nodes, byName)
	p.hashes, p.held, p.loads = make([]uint64, len(p.nodes)), make([]int, len(p.nodes)), make([]int, len(p.nodes))
	for i := range p.nodes {
		name := p.nodes[i].Name
		p.hashes[i], p.held[i] = hashNode(name), v.Held.Of(name).Weight
		p.loads[i] = p.held[i] - v.shortLivedWeight(name)
	}
	p.levels = slices.Clone(p.loads)
	p.heldOf = typedOf(p.nodes, v.Held)
	p.loadsOf = p.heldOf.clone()
	for _, open := range []map[*Class]int{v.Open, v.Leaving} {
		for c, n := range open {
			q := p.pool(c)
			q.open += n
			q.spread = q.spread || c.Group != ""
		}
	}
	p.divide()
	return p
}

// at returns the position of an open node.
func (p *Plan) at(name string) (i int, ok bool) {
	return slices.BinarySearchFunc(p.nodes, Node{Name: name}, byName)
}

// pool returns the pool of a class, and creates it if needed.
func (p *Plan) pool(c *Class) *pool {
	if q := p.pools[c.pool]; q != nil {
		return q
	}
	q := &pool{class: c, shortLived: p.view.ShortLived[c.Type]}
	for i := range p.nodes {
		if p.nodes[i].Excludes(c) == "" {
			q.eligible = append(q.eligible, i)
			q.capped = q.capped || p.nodes[i].Capacity > 0
		}
	}
	q.quota = make([]int, len(q.eligible))
	p.pools[c.pool] = q
	return q
}

// divide divides every pool over its nodes. Tasks that few nodes can run come first,
// then heavy ones: the tasks that come last can even out the loads.
func (p *Plan) divide() {
	order := make([]*pool, 0, len(p.pools))
	for _, q := range p.pools {
		order = append(order, q)
	}
	slices.SortFunc(order, func(a, b *pool) int {
		return cmp.Or(cmp.Compare(len(a.eligible), len(b.eligible)), cmp.Compare(b.class.Weight, a.class.Weight),
			cmp.Compare(a.class.pool, b.class.pool))
	})
	var tiers [][]int // what is reserved, by how many nodes are eligible
	for i, q := range order {
		if i == 0 || len(order[i-1].eligible) < len(q.eligible) {
			tiers = append(tiers, make([]int, len(p.nodes)))
		}
		q.before, q.reserved = tiers[:len(tiers)-1], tiers[len(tiers)-1]
		vessels := make([]vessel, len(q.eligible))
		for k, i := range q.eligible {
			n := &p.nodes[i]
			vessels[k] = vessel{load: p.loads[i], weight: n.weight(), capacity: n.Capacity, most: p.loadsOf.room(p.nodes, i, q.class.Type)}
		}
		gets, left := fill(vessels, q.open, q.class.Weight)
		p.unplaced += left * q.class.Weight
		q.quota = gets
		q.byName = q.shortLived && !q.spread && !q.capped
		for k, i := range q.eligible {
			q.byName = q.byName && !p.limited(q, k)
			p.loadsOf.add(i, q.class.Type, gets[k])
			if !q.shortLived {
				p.loads[i] += gets[k] * q.class.Weight
				q.reserved[i] += gets[k] * q.class.Weight
			} else if gets[k] > 0 {
				q.quota[k] += gets[k] + shortLivedSlack
			}
		}
	}
}

// shortLivedSlack is how many short-lived tasks more than its share a node can have: enough for
// their names to decide, and not so many that one node could have them all.
const shortLivedSlack = 64

// shortLivedWeight returns the weight of the short-lived tasks that a node holds.
func (v *View) shortLivedWeight(node string) (weight int) {
	if len(v.ShortLived) == 0 {
		return 0
	}
	for c, tasks := range v.Held.Of(node).Classes {
		if v.ShortLived[c.Type] {
			weight += tasks * c.Weight
		}
	}
	return weight
}

// Take assigns an open task to a node and returns the node's name; empty if no node can
// have the task now. Every caller must assign tasks in the same order: the oldest
// first.
func (p *Plan) Take(task string, c *Class) string {
	q := p.pools[c.pool]
	if q == nil {
		return ""
	}
	hash := hashTask(task)
	best := p.best(q, c, hash, func(k int) bool {
		return q.quota[k] > 0 || c.Group != "" || !q.capped && len(c.Prefer) == 0
	})
	if best < 0 {
		// If a limited type has more tasks than there is room for, the quotas of its pools
		// mean nothing: the oldest task gets the room.
		best = p.best(q, c, hash, func(k int) bool { return !q.capped || p.limited(q, k) })
	}
	if best < 0 {
		return ""
	}
	p.give(q, best, c, 1)
	return p.nodes[q.eligible[best]].Name
}

// best returns the position, among the eligible nodes that may have a task, of the one
// that gets it; -1 for none.
func (p *Plan) best(q *pool, c *Class, task uint64, may func(k int) bool) int {
	best := -1
	var first bid
	for k, i := range q.eligible {
		if !may(k) || p.full(q, k) {
			continue
		}
		if b := p.bid(q, c, i, task); best < 0 || b.beats(&first, task) {
			best, first = k, b
		}
	}
	return best
}

// bid has the criteria by which nodes compete for a task.
type bid struct {
	node *Node
	hash uint64
	// prefers is how many labels of the node the task prefers. inZone and onNode count
	// the tasks of its group there.
	prefers, inZone, onNode int
	// level is the weight that the node would have with it, zero for a short-lived task.
	level      int
	shortLived bool
}

func (p *Plan) bid(q *pool, c *Class, i int, task uint64) bid {
	b := bid{node: &p.nodes[i], hash: p.hashes[i], shortLived: q.shortLived}
	if len(c.Prefer) > 0 {
		b.prefers = b.node.Preferred(c)
	}
	if c.Group != "" {
		s := p.spreadOf(c.Group)
		b.inZone, b.onNode = s.zones[b.node.Zone], s.nodes[b.node.Name]
	}
	if !b.shortLived {
		b.level = p.filled(q, i) + c.Weight
	}
	return b
}

// beats reports whether a node gets a task rather than another.
func (b *bid) beats(other *bid, task uint64) bool {
	switch m, n := b.node.weight(), other.node.weight(); {
	case b.prefers != other.prefers:
		return b.prefers > other.prefers
	case b.inZone != other.inZone:
		return b.inZone < other.inZone
	case b.onNode != other.onNode:
		return b.onNode < other.onNode
	case b.level*n != other.level*m:
		return b.level*n < other.level*m
	case b.shortLived && m != n:
		return weighted(b.hash, task, m) > weighted(other.hash, task, n)
	}
	return compareScore(b.hash, other.hash, b.node.Name, other.node.Name, task) < 0
}

// Given records that open tasks were assigned to a node before. It returns false if
// that node should no longer have them: a new plan is then needed.
func (p *Plan) Given(c *Class, node string, tasks int) bool {
	q := p.pools[c.pool]
	if q == nil {
		return tasks == 0
	}
	i, ok := p.at(node)
	k, eligible := slices.BinarySearch(q.eligible, i)
	if !ok || !eligible {
		return tasks == 0
	}
	p.give(q, k, c, tasks)
	return q.quota[k] >= 0 || !q.capped || q.spread || p.limited(q, k) || q.shortLived
}

// ByName reports whether Take assigns tasks of a class by name alone: other numbers and
// loads do not change the node.
func (p *Plan) ByName(c *Class) bool {
	q := p.pools[c.pool]
	return q != nil && q.byName && len(c.Prefer) == 0
}

// limited reports whether a node limits the tasks of a pool's type.
func (p *Plan) limited(q *pool, k int) bool {
	_, ok := p.nodes[q.eligible[k]].Limit(q.class.Type)
	return ok
}

func (p *Plan) give(q *pool, k int, c *Class, tasks int) {
	i := q.eligible[k]
	if !q.shortLived {
		p.levels[i] += tasks * c.Weight
		q.reserved[i] -= min(tasks, max(q.quota[k], 0)) * c.Weight
	}
	q.quota[k] -= tasks
	p.held[i] += tasks * c.Weight
	p.heldOf.add(i, c.Type, tasks)
	if c.Group != "" {
		p.spreadOf(c.Group).add(&p.nodes[i], tasks)
	}
}

// full reports whether a task of the pool is too much for a node.
func (p *Plan) full(q *pool, k int) bool {
	i := q.eligible[k]
	limit := p.nodes[i].Capacity
	return limit > 0 && p.held[i]+q.class.Weight > limit || p.heldOf.room(p.nodes, i, q.class.Type) == 0
}

// filled returns the weight that a node holds, was assigned, and is to be assigned of
// tasks that fewer nodes can run than those of a pool.
func (p *Plan) filled(q *pool, node int) int {
	level := p.levels[node]
	for _, reserved := range q.before {
		level += reserved[node]
	}
	return level
}

// spreadOf counts a group once, with the tasks just assigned.
func (p *Plan) spreadOf(group string) *spread {
	s := p.groups[group]
	if s == nil {
		s = p.counted(group)
		p.groups[group] = s
	}
	return s
}

// Unplaced returns the weight of the open tasks that no node can have now.
func (p *Plan) Unplaced() int { return p.unplaced }
