package placement

import (
	"cmp"
	"slices"

	"github.com/windlass-go/windlass/internal/heap"
)

// spread says where the tasks of a group are.
type spread struct {
	nodes, zones map[string]int
}

// counted counts a group on the open nodes.
func (p *Plan) counted(group string) *spread {
	s := &spread{nodes: map[string]int{}, zones: map[string]int{}}
	for name, n := range p.view.Held.groups[group] {
		if i, open := p.at(name); open {
			s.add(&p.nodes[i], n)
		}
	}
	return s
}

func (s *spread) add(n *Node, tasks int) {
	s.nodes[n.Name] += tasks
	s.zones[n.Zone] += tasks
}

// change is what the move of a task does to the spread of its group over zones, and then over
// nodes: less than nothing makes it more even, more makes it less even. The sums of the squares
// of the numbers change by twice as much.
type change struct{ zones, nodes int }

func (s *spread) change(from, to *Node) change {
	c := change{nodes: s.nodes[to.Name] + 1 - s.nodes[from.Name]}
	if from.Zone != to.Zone {
		c.zones = s.zones[to.Zone] + 1 - s.zones[from.Zone]
	}
	return c
}

// compare compares two changes, the better one first.
func (c change) compare(d change) int {
	return cmp.Or(cmp.Compare(c.zones, d.zones), cmp.Compare(c.nodes, d.nodes))
}

// ranked is a bundle and what the move of one of its tasks does.
type ranked struct {
	*bundle
	loses bool
	change
}

// harms reports whether its group becomes less even.
func (r ranked) harms() bool { return r.compare(change{}) > 0 }

// before reports whether it is to move rather than another one: what a task prefers comes before
// the spread of its group.
func (r ranked) before(other ranked) bool {
	switch {
	case r.harms() != other.harms():
		return other.harms()
	case r.loses != other.loses:
		return other.loses
	}
	return cmp.Or(r.compare(other.change), cmp.Compare(r.group, other.group)) < 0
}

// better reports whether the move does more good, whatever the names of the groups are.
func (r ranked) better(other ranked) bool {
	return r.loses != other.loses && other.loses || r.loses == other.loses && r.compare(other.change) < 0
}

// rank returns what the move of a task of a bundle does.
func (m *mover) rank(b *bundle, from, to int) ranked {
	r := ranked{bundle: b, loses: b.prefers}
	self, target := &m.plan.nodes[from], &m.plan.nodes[to]
	for k := 0; r.loses && k < len(b.classes); k++ {
		r.loses = target.Preferred(b.classes[k]) < self.Preferred(b.classes[k])
	}
	if b.group != "" {
		r.change = m.spreadOf(b.group).change(self, target)
	}
	return r
}

// pick returns the bundle from which a task of a pool moves to a node, the one that gives up no
// preference, and whose group becomes more even by it; none if each is of a group that would become
// less even.
func (m *mover) pick(h *held, from, to int) ranked {
	var best ranked
	if h.plain != nil && h.plain.tasks > 0 {
		best = m.rank(h.plain, from, to)
	}
	if len(h.groups) == 0 {
		return best
	}
	if h.next[to] == nil {
		h.next[to] = heap.New(ranked.before, nil)
		for _, b := range h.groups {
			h.next[to].Push(m.rank(b, from, to))
		}
	}
	next := h.next[to]
	for next.Len() > 0 {
		first := next.First()
		if first.tasks == 0 {
			next.Pop()
			continue
		}
		if now := m.rank(first.bundle, from, to); now != first { // others of its group have moved
			next.Set(0, now)
			continue
		}
		if !first.harms() && (best.bundle == nil || first.before(best)) {
			best = first
		}
		break
	}
	return best
}

// uneven returns the groups that could be more even for all that their numbers say, by name.
func (p *Plan) uneven() (groups []string) {
	if !p.view.Held.Grouped() || len(p.nodes) < 2 {
		return nil
	}
	zoneOf, zones := map[string]int{}, map[string]int{} // by node, and by zone
	for i := range p.nodes {
		if _, known := zones[p.nodes[i].Zone]; !known {
			zones[p.nodes[i].Zone] = len(zones)
		}
		zoneOf[p.nodes[i].Name] = zones[p.nodes[i].Zone]
	}
	inZone := make([]int, len(zones))
	for group, members := range p.view.Held.groups {
		clear(inZone)
		on, most, least := 0, 0, 0
		for node, n := range members {
			if zone, open := zoneOf[node]; open {
				if on++; on == 1 {
					least = n
				}
				inZone[zone] += n
				most, least = max(most, n), min(least, n)
			}
		}
		if on < len(p.nodes) {
			least = 0
		}
		if most-least > 1 || slices.Max(inZone)-slices.Min(inZone) > 1 {
			groups = append(groups, group)
		}
	}
	slices.Sort(groups)
	return groups
}

// Unspread returns the groups that are less even than the nodes allow that can run them, whatever
// their loads are, with the numbers of their tasks by node.
func (p *Plan) Unspread() map[string]map[string]int {
	groups := p.uneven()
	if len(groups) == 0 {
		return nil
	}
	m, found := newMover(p), map[string]map[string]int{}
	of := m.bundlesOf(groups)
	for _, group := range groups {
		if m.bestStep(of[group], func(*step) bool { return true }) != nil {
			found[group] = m.spreadOf(group).nodes
		}
	}
	return found
}

// bundlesOf returns the bundles of some groups, in the order of the nodes.
func (m *mover) bundlesOf(groups []string) map[string][]*bundle {
	of := map[string][]*bundle{}
	for _, group := range groups {
		of[group] = nil
	}
	for i := range m.donors {
		for _, h := range m.donor(i).pools {
			for _, b := range h.groups {
				if _, wanted := of[b.group]; wanted {
					of[b.group] = append(of[b.group], b)
				}
			}
		}
	}
	return of
}

// step is a move that makes a group more even.
type step struct {
	ranked
	to int
	// inTurn is set if another task has to move back, for the loads.
	inTurn bool
}

// Spread returns the tasks that should move to make groups more even, at most that many tasks. It
// is for a cluster that Moves finds balanced. A move leaves the loads of its two nodes as they are,
// more even, or exchanged; or there is a task that Moves sends back once the first has arrived. If
// both went at once, and only one could be moved, that one would move back and forth. As Moves
// makes no group less even, the moves come to an end.
func (p *Plan) Spread(most int) []Move {
	groups := p.uneven()
	if len(groups) == 0 {
		return nil
	}
	m := newMover(p)
	of := m.bundlesOf(groups)
	for _, group := range groups {
		for s := m.bestStep(of[group], m.keepsLoads); s != nil; s = m.bestStep(of[group], m.keepsLoads) {
			if most--; most < 0 {
				return m.moves
			}
			from := s.held.at
			m.move(s.bundle, from, s.to)
			if s.inTurn {
				m.exchanging[from], m.exchanging[s.to] = true, true
			}
		}
	}
	return m.moves
}

// bestStep returns the step that makes a group the most even, of those that are permitted: among
// equal ones one without an exchange, and to the least loaded node; nil for none.
func (m *mover) bestStep(of []*bundle, permitted func(*step) bool) (best *step) {
	for _, b := range of {
		if b.tasks == 0 {
			continue
		}
		for _, to := range b.held.pool.eligible {
			if to == b.held.at {
				continue
			}
			s := &step{ranked: m.rank(b, b.held.at, to), to: to}
			if s.loses || s.compare(change{}) >= 0 || best != nil && s.compare(best.change) > 0 || !permitted(s) {
				continue
			}
			if best == nil || m.better(s, best) {
				best = s
			}
		}
	}
	return best
}

func (m *mover) better(s, than *step) bool {
	if order := s.compare(than.change); order != 0 {
		return order < 0
	}
	if s.inTurn != than.inTurn {
		return than.inTurn
	}
	return m.fuller(than.to, s.to)
}

// keepsLoads reports whether a step makes no loads less even, by itself or in exchange.
func (m *mover) keepsLoads(s *step) bool {
	q := s.held.pool
	if m.exchanging[s.to] || !m.hasRoom(s.to, q) {
		return false // what is to move back needs the room
	}
	s.inTurn = !m.noLessEven(s.held.at, s.to, q.class.Weight)
	return !s.inTurn || !m.exchanging[s.held.at] && m.exchangeable(s)
}

// noLessEven reports whether the move of a weight leaves two nodes no less even: the fuller one no
// fuller, and if as full, the other one no fuller.
func (m *mover) noLessEven(from, to, each int) bool {
	// Loads for the weights of the nodes, times both weights.
	f, t := m.plan.nodes[to].weight(), m.plan.nodes[from].weight()
	before := []int{m.loads[from] * f, m.loads[to] * t}
	after := []int{(m.loads[from] - each) * f, (m.loads[to] + each) * t}
	slices.Sort(before)
	slices.Sort(after)
	return cmp.Or(cmp.Compare(after[1], before[1]), cmp.Compare(after[0], before[0])) <= 0
}

// exchangeable reports whether a task that weighs the same will move in the other direction: the
// receiver of the first one is then the fullest node, above its fair share, and this one does no
// harm.
func (m *mover) exchangeable(s *step) bool {
	from, q := s.held.at, s.held.pool
	self, target, with := &m.plan.nodes[from], &m.plan.nodes[s.to], m.loads[s.to]+q.class.Weight
	if float64(with) <= m.fair[s.to] || m.loads[from]*target.weight() >= with*self.weight() || self.Capacity > 0 && m.loads[from] > self.Capacity {
		return false
	}
	for i := range m.plan.nodes {
		if i != s.to && m.loads[i]*target.weight() > with*m.plan.nodes[i].weight() {
			return false // and would be the next to give
		}
	}
	may := func(b *bundle) bool {
		if b == nil || b.tasks == 0 || b.group == s.group {
			return false
		}
		r := m.rank(b, s.to, from)
		return !r.loses && !r.harms()
	}
	for _, h := range m.donor(s.to).pools {
		if h.pool.class.Weight != q.class.Weight || h.tasks == 0 || !slices.Contains(h.pool.eligible, from) {
			continue
		}
		if m.loadsOf.room(m.plan.nodes, from, h.pool.class.Type) > 0 && (may(h.plain) || slices.ContainsFunc(h.groups, may)) {
			return true
		}
	}
	return false
}
