package placement

// Move is a number of tasks that should go from one node to another.
type Move struct {
	From, To string
	// Like is one class of these tasks. They are of all classes that differ from it
	// only in preferences.
	Like  *Class
	Tasks int
}

// Covers reports whether tasks of a class are among those that move.
func (m Move) Covers(c *Class) bool { return c.pool == m.Like.pool && c.Group == m.Like.Group }

// Moves returns the tasks that should move to balance the nodes, most urgent first, at
// most that many tasks. Unless tolerance is 0, it returns none if no move helps a node
// that is further from its fair share than the tolerance, a fraction of that share of
// at least 0, plus one task. None makes a group less even, and those that make one more even
// come first.
func (p *Plan) Moves(most int, tolerance float64) []Move {
	if p.level() {
		return nil
	}
	m := newMover(p)
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

// fairShares returns the loads in proportion to the weights, with those of the nodes that are
// away.
func (p *Plan) fairShares() []float64 {
	total, weights := 0, 0
	for i := range p.view.Away {
		n := &p.view.Away[i]
		total += p.view.Held.Of(n.Name).Weight - p.view.shortLivedWeight(n.Name)
		weights += n.weight()
	}
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
	if i, ok := p.at(node); ok {
		return p.loads[i]
	}
	return p.view.Held.Of(node).Weight
}
