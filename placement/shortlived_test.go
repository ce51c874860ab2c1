package placement

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// counts assigns n tasks of a class, and returns how many each node gets.
func counts(p *Plan, c *Class, n int) map[string]int {
	byNode := map[string]int{}
	for i := range n {
		byNode[p.Take(fmt.Sprint("task-", i), c)]++
	}
	return byNode
}

func TestPlan_M17_ShortLivedTasksAreAssignedByNameWhateverIsHeld(t *testing.T) {
	var classes Classes
	shortLived, lasting := classes.Of(Class{Type: "short-lived"}), classes.Of(Class{Type: "lasting"})
	view := func(held int) View {
		v := View{Held: &Tally{}, Open: map[*Class]int{shortLived: 300, lasting: 30}, ShortLived: map[string]bool{"short-lived": true}}
		for i, name := range []string{"a", "b", "c"} {
			v.Nodes = append(v.Nodes, Node{Name: name, Types: []string{AnyType}})
			v.Held.Add(name, shortLived, 1+i*held)
			v.Held.Add(name, lasting, 10)
		}
		return v
	}
	targets := func(held int) (to []string) {
		p := New(view(held))
		for i := range 300 {
			to = append(to, p.Take(fmt.Sprint("task-", i), shortLived))
		}
		return to
	}
	if diff := cmp.Diff(targets(0), targets(1000)); diff != "" {
		t.Errorf("held tasks of the type change the assignment (-0 +1000)\n%s", diff)
	}
	p := New(view(1000))
	if moves := p.Moves(1000, 0); len(moves) > 0 {
		t.Errorf("short-lived tasks are moved: %v", moves)
	}
	if diff := cmp.Diff(map[string]int{"a": 10, "b": 10, "c": 10}, counts(p, lasting, 30)); diff != "" {
		t.Errorf("the lasting tasks are not even (-want +got)\n%s", diff)
	}
}

func TestPlan_M41_ShortLivedTasksAreDividedByTheWeightsOfNodes(t *testing.T) {
	var classes Classes
	shortLived := classes.Of(Class{Type: "short-lived"})
	v := View{Held: &Tally{}, Open: map[*Class]int{shortLived: 4000}, ShortLived: map[string]bool{"short-lived": true}}
	v.Nodes = []Node{{Name: "a", Types: []string{AnyType}}, {Name: "b", Types: []string{AnyType}, Weight: 3}}
	if a := counts(New(v), shortLived, 4000)["a"]; a < 850 || a > 1150 {
		t.Errorf("a node with a quarter of the weight gets %d of 4000", a)
	}
}

func TestPlan_ByNameIsTrueForShortLivedTasksWithoutOtherCriteria(t *testing.T) {
	for _, c := range []struct {
		name  string
		class Class
		node  Node
		open  int
		want  bool
	}{
		{"short-lived", Class{Type: "short-lived"}, Node{}, 10, true},
		{"fewer than nodes", Class{Type: "short-lived"}, Node{}, 1, true},
		{"that prefers a label", Class{Type: "short-lived", Prefer: map[string]string{"disk": "ssd"}}, Node{}, 10, false},
		{"lasting", Class{Type: "lasting"}, Node{}, 10, false},
		{"in a group", Class{Type: "short-lived", Group: "g"}, Node{}, 10, false},
		{"a node with a capacity", Class{Type: "short-lived"}, Node{Capacity: 10}, 10, false},
		{"a node with a limit", Class{Type: "short-lived"}, Node{Limits: map[string]int{"short-lived": 10}}, 10, false},
		{"a node with a limit for another type", Class{Type: "short-lived"}, Node{Limits: map[string]int{"lasting": 10}}, 10, true},
		{"not open", Class{Type: "short-lived", Require: map[string]string{"gpu": "a100"}}, Node{}, 0, false},
	} {
		var classes Classes
		class := classes.Of(c.class)
		n := c.node
		n.Name, n.Types = "a", []string{AnyType}
		v := View{Held: &Tally{}, Open: map[*Class]int{class: c.open}, ShortLived: map[string]bool{"short-lived": true}, Nodes: []Node{n, {Name: "b", Types: []string{AnyType}}}}
		if c.open == 0 {
			clear(v.Open)
		}
		if got := New(v).ByName(class); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
