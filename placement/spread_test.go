package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// spreadOf returns the numbers of a group's tasks by node and by zone, where tasks may go.
func (m *model) spreadOf(group string) (nodes, zones map[string]int) {
	nodes, zones = map[string]int{}, map[string]int{}
	for _, n := range m.nodes {
		if n.Closed != "" {
			continue
		}
		nodes[n.Name] += 0
		zones[n.Zone] += 0
		for c, k := range m.held[n.Name] {
			if c.Group == group {
				nodes[n.Name] += k
				zones[n.Zone] += k
			}
		}
	}
	return nodes, zones
}

// uneven is the difference between the most and the least.
func uneven(numbers map[string]int) int {
	all := slices.Collect(maps.Values(numbers))
	return slices.Max(all) - slices.Min(all)
}

// squares grows with the unevenness of numbers whose sum is the same.
func squares(numbers map[string]int) (sum int) {
	for _, n := range numbers {
		sum += n * n
	}
	return sum
}

// rest moves until nothing moves any more. No round may make a group less even, and all together
// not the first of the loads.
func (m *model) rest(t *rapid.T, groups []string, first int) {
	loads := m.sortedLoads()
	for range 1000 {
		evenness := map[string][2]int{}
		of := func(g string) [2]int {
			nodes, zones := m.spreadOf(g)
			return [2]int{squares(zones), squares(nodes)}
		}
		for _, g := range groups {
			evenness[g] = of(g)
		}
		moved := m.move(rapid.IntRange(1, 40).Draw(t, "most"), 0)
		for _, g := range groups {
			if before, after := evenness[g], of(g); slices.Compare(after[:], before[:]) > 0 {
				t.Fatalf("the squares of group %s become %v, were %v", g, after, before)
			}
		}
		if moved == 0 {
			if after := m.sortedLoads(); slices.Compare(after[:first], loads[:first]) > 0 {
				t.Fatalf("loads of %v become %v", loads, after)
			}
			return
		}
	}
	t.Fatal("moving does not end")
}

// sortedLoads returns the loads for the weights of the nodes, the highest first.
func (m *model) sortedLoads() (loads []float64) {
	for _, n := range m.nodes {
		loads = append(loads, -float64(m.load(n.Name))/float64(n.weight()))
	}
	slices.Sort(loads)
	for i := range loads {
		loads[i] = -loads[i]
	}
	return loads
}

// drawGroups draws groups on nodes in zones. It puts their tasks anywhere, or where they are
// assigned to.
func drawGroups(t *rapid.T, zones, each int) (m *model, groups []string) {
	m = &model{held: map[string]map[*Class]int{}, open: map[*Class][]string{}}
	for i := range zones * each {
		m.nodes = append(m.nodes, Node{Name: fmt.Sprintf("n%02d", i), Types: []string{AnyType}, Zone: fmt.Sprint("z", i%zones)})
	}
	anywhere := rapid.Bool().Draw(t, "anywhere")
	put := func(c *Class, n int) {
		if !anywhere {
			m.submit(c, c.Group+"-", n)
			m.place()
			return
		}
		for range n {
			m.hold(rapid.SampledFrom(m.nodes).Draw(t, "holder").Name, c, 1)
		}
	}
	for i := range rapid.IntRange(1, 6).Draw(t, "groups") {
		groups = append(groups, fmt.Sprint("g", i))
		put(m.classes.Of(Class{Type: "t", Group: groups[i]}), rapid.IntRange(1, 12).Draw(t, "of group"))
	}
	put(m.classes.Of(Class{Type: "t"}), rapid.IntRange(0, 20).Draw(t, "plain"))
	return m, groups
}

// even reports whether a group is spread over zones, and over the nodes of each.
func (m *model) even(group string) bool {
	nodes, zones := m.spreadOf(group)
	for zone := range zones {
		within := map[string]int{}
		for _, n := range m.nodes {
			if n.Zone == zone {
				within[n.Name] = nodes[n.Name]
			}
		}
		if uneven(within) > 1 {
			return false
		}
	}
	return uneven(zones) <= 1
}

func TestPlan_O08_GroupsAreEvenOnceNodesHaveJoined(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, groups := drawGroups(t, rapid.IntRange(1, 4).Draw(t, "zones"), rapid.IntRange(1, 3).Draw(t, "each"))
		m.rest(t, groups, len(m.nodes))
		for _, g := range groups {
			if !m.even(g) {
				nodes, zones := m.spreadOf(g)
				t.Errorf("group %s has %v in zones, %v on nodes; the loads are %v", g, zones, nodes, m.loads())
			}
		}
	})
}

// Weights, capacities, labels, preferences and pins may keep groups uneven.
func TestPlan_O08_NoMoveMakesAGroupOrTheLoadsLessEvenInAnyCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMixed(t)
		m.place()
		m.rest(t, []string{"g", "h"}, 1) // the room for what was to move back may be taken
	})
}

func TestPlan_O08_AGroupIsSpreadWhenANodeJoins(t *testing.T) {
	for name, test := range map[string]struct {
		held  map[string]map[string]int // numbers by group, by node
		zones map[string]string         // the zone of a node is its name if there is no other
	}{
		"two groups of two, and another zone": {held: map[string]map[string]int{"a": {"g": 2, "h": 2}, "b": {}}},
		"two groups of three over two":        {held: map[string]map[string]int{"a": {"g": 3}, "b": {"h": 3}, "c": {}}},
		"six on two, and a third":             {held: map[string]map[string]int{"a": {"g": 3, "h": 3}, "b": {"g": 3, "h": 3}, "c": {}}},
		"several give to one":                 {held: map[string]map[string]int{"a": {"g": 2, "h": 2, "": 2}, "b": {"g": 2, "h": 2, "": 2}, "c": {}}},
		"as many on each, and only exchanged": {held: map[string]map[string]int{"a": {"g": 2}, "b": {"h": 2}}},
		"exchanged with what is in no group":  {held: map[string]map[string]int{"a": {"g": 2}, "b": {"": 2}}},
		"another node of a zone": {
			held:  map[string]map[string]int{"a1": {"g": 2, "h": 1}, "a2": {}, "b1": {"g": 1, "h": 2}},
			zones: map[string]string{"a1": "a", "a2": "a", "b1": "b"},
		},
		"loads are even, zones are not": {
			held:  map[string]map[string]int{"a1": {"g": 1}, "a2": {"g": 1}, "b1": {"h": 1}},
			zones: map[string]string{"a1": "a", "a2": "a", "b1": "b"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &model{held: map[string]map[*Class]int{}, open: map[*Class][]string{}}
			for node, groups := range test.held {
				m.nodes = append(m.nodes, Node{Name: node, Types: []string{"t"}, Zone: cmp.Or(test.zones[node], node)})
				for g, n := range groups {
					m.hold(node, m.classes.Of(Class{Type: "t", Group: g}), n)
				}
			}
			if before := New(m.view()).Unspread(); len(before) == 0 {
				t.Error("all groups are spread")
			}
			for range 10 {
				m.move(100, 0)
			}
			for _, g := range []string{"g", "h"} {
				if !m.even(g) {
					nodes, zones := m.spreadOf(g)
					t.Errorf("group %s has %v in zones, %v on nodes; the loads are %v", g, zones, nodes, m.loads())
				}
			}
			if after := New(m.view()).Unspread(); len(after) > 0 {
				t.Errorf("not spread are %v", after)
			}
		})
	}
}

// BenchmarkMoves_Groups plans for a hundred nodes that one more joins, with tasks in groups of three
// or in none: in full, and once all is even.
func BenchmarkMoves_Groups(b *testing.B) {
	for _, each := range []int{0, 3} {
		for _, joins := range []bool{true, false} {
			b.Run(fmt.Sprintf("of %d/joins %v", each, joins), func(b *testing.B) {
				const nodes, tasks = 100, 99_000
				m := &model{held: map[string]map[*Class]int{}, open: map[*Class][]string{}}
				for i := range nodes {
					m.nodes = append(m.nodes, Node{Name: fmt.Sprintf("n%03d", i), Types: []string{AnyType}, Zone: fmt.Sprint("z", i%3)})
				}
				for i := range tasks {
					group := ""
					if each > 0 {
						group = fmt.Sprint("g", i/each)
					}
					m.hold(m.nodes[i*31%(nodes-1)].Name, m.classes.Of(Class{Type: "t", Group: group}), 1)
				}
				if !joins {
					m.nodes = m.nodes[:nodes-1]
				}
				v := m.view()
				for b.Loop() {
					if plan := New(v); len(plan.Moves(1000*nodes, 0)) == 0 {
						plan.Spread(1000 * nodes)
					}
				}
			})
		}
	}
}
