package placement

// Tally counts the tasks of a cluster by holder, and the tasks of each group by node.
// The zero value is ready to use. It is not safe for concurrent use.
type Tally struct {
	holdings map[string]*Holding
	groups   map[string]map[string]int
}

// Holding is what one node holds.
type Holding struct {
	// Tasks is the number of tasks, Weight their total weight.
	Tasks, Weight int
	// Classes counts them by class.
	Classes map[*Class]int
}

// Add adds by tasks of a class to those that a node holds; by may be negative.
func (t *Tally) Add(node string, c *Class, by int) {
	h := t.holdings[node]
	if h == nil {
		if t.holdings == nil {
			t.holdings = map[string]*Holding{}
		}
		h = &Holding{Classes: map[*Class]int{}}
		t.holdings[node] = h
	}
	h.Tasks += by
	h.Weight += by * c.Weight
	if h.Classes[c] += by; h.Classes[c] == 0 {
		delete(h.Classes, c)
	}
	if h.Tasks == 0 {
		delete(t.holdings, node)
	}
	if c.Group != "" {
		t.addToGroup(c.Group, node, by)
	}
}

func (t *Tally) addToGroup(group, node string, by int) {
	nodes := t.groups[group]
	if nodes == nil {
		if t.groups == nil {
			t.groups = map[string]map[string]int{}
		}
		nodes = map[string]int{}
		t.groups[group] = nodes
	}
	if nodes[node] += by; nodes[node] == 0 {
		delete(nodes, node)
	}
	if len(nodes) == 0 {
		delete(t.groups, group)
	}
}

// Grouped reports whether any task is in a group.
func (t *Tally) Grouped() bool { return len(t.groups) > 0 }

// Of returns what a node holds. The caller must not modify it.
func (t *Tally) Of(node string) Holding {
	if h := t.holdings[node]; h != nil {
		return *h
	}
	return Holding{}
}
