package placement

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model simulates a cluster that carries out plans.
type model struct {
	nodes   []Node
	classes Classes
	held    map[string]map[*Class]int
	open    map[*Class][]string // IDs, the oldest first
}

func (m *model) view() View {
	v := View{Nodes: m.nodes, Held: &Tally{}, Open: map[*Class]int{}}
	for node, classes := range m.held {
		for c, n := range classes {
			v.Held.Add(node, c, n)
		}
	}
	for c, ids := range m.open {
		v.Open[c] = len(ids)
	}
	return v
}

func (m *model) hold(node string, c *Class, n int) {
	if m.held[node] == nil {
		m.held[node] = map[*Class]int{}
	}
	m.held[node][c] += n
}

// submit adds n open tasks of a class.
func (m *model) submit(c *Class, prefix string, n int) {
	for i := range n {
		m.open[c] = append(m.open[c], fmt.Sprint(prefix, i))
	}
}

// place assigns every open task and returns how many fit nowhere.
func (m *model) place() (left int) {
	plan := New(m.view())
	for c, ids := range m.open {
		for _, id := range ids {
			if node := plan.Take(id, c); node != "" {
				m.hold(node, c, 1)
			} else {
				left++
			}
		}
	}
	m.open = map[*Class][]string{}
	return left
}

// move carries out the moves of one round and returns how many there were.
func (m *model) move(most int, tolerance float64) (moved int) {
	plan := New(m.view())
	moves := plan.Moves(most, tolerance)
	if len(moves) == 0 && tolerance == 0 {
		moves = plan.Spread(most)
	}
	for _, mv := range moves {
		for range mv.Tasks {
			for c, n := range m.held[mv.From] {
				if n > 0 && mv.Covers(c) {
					m.hold(mv.From, c, -1)
					m.hold(mv.To, c, 1)
					moved++
					break
				}
			}
		}
	}
	return moved
}

func (m *model) load(node string) (weight int) {
	for c, n := range m.held[node] {
		weight += n * c.Weight
	}
	return weight
}

func (m *model) loads() (loads []int) {
	for _, n := range m.nodes {
		loads = append(loads, m.load(n.Name))
	}
	return loads
}

func (m *model) tasks() (n int) {
	for _, classes := range m.held {
		for _, k := range classes {
			n += k
		}
	}
	for _, ids := range m.open {
		n += len(ids)
	}
	return n
}

// uniform returns a cluster of equal nodes and tasks of one class. counts has the tasks
// that each node holds.
func uniform(counts []int, open int) (*model, *Class) {
	m := &model{held: map[string]map[*Class]int{}, open: map[*Class][]string{}}
	c := m.classes.Of(Class{Type: "t"})
	for i, n := range counts {
		name := fmt.Sprintf("n%03d", i)
		m.nodes = append(m.nodes, Node{Name: name, Types: []string{AnyType}})
		m.hold(name, c, n)
	}
	m.submit(c, "task-", open)
	return m, c
}

func drawUniform(t *rapid.T) (*model, *Class) {
	counts := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 12).Draw(t, "counts")
	return uniform(counts, rapid.IntRange(0, 60).Draw(t, "open"))
}

func TestPlan_M43_IsEvenWithFewestMovesAndAFixedPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, _ := drawUniform(t)
		total := m.tasks()
		if left := m.place(); left != 0 {
			t.Fatalf("%d tasks are unplaced", left)
		}
		placed := m.loads()
		moved := m.move(1<<20, 0)
		if least := leastMoves(placed); moved != least {
			t.Fatalf("from %v: %d moves; %d would do", placed, moved, least)
		}
		loads := m.loads()
		if slices.Max(loads)-slices.Min(loads) > 1 || m.tasks() != total {
			t.Fatalf("%v of %d tasks end as %v", placed, total, loads)
		}
		if again := m.move(1<<20, 0); again != 0 {
			t.Fatalf("%v is even and %d tasks would still move", loads, again)
		}
	})
}

// What is kept for a node that is away is its part of the load: whoever joins meanwhile gets
// nothing that would move on when the node is back.
func TestPlan_M17_NobodyGivesMoreThanWhatIsAboveItsShareWithThoseThatAreAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, c := uniform(rapid.SliceOfN(rapid.IntRange(0, 50), 1, 12).Draw(t, "counts"), 0)
		v, total := m.view(), m.tasks()
		for i, kept := range rapid.SliceOfN(rapid.IntRange(1, 50), 1, 5).Draw(t, "kept") {
			away := Node{Name: fmt.Sprintf("away%d", i), Types: []string{AnyType}}
			v.Held.Add(away.Name, c, kept)
			v.Away, total = append(v.Away, away), total+kept
		}
		share := (total + len(v.Nodes) + len(v.Away) - 1) / (len(v.Nodes) + len(v.Away))
		gives, moves, alone := map[string]int{}, 0, 0
		for _, mv := range New(v).Moves(1<<20, 0) {
			gives[mv.From] += mv.Tasks
			moves += mv.Tasks
		}
		for name, n := range gives {
			if had := m.load(name); had-n < share-1 {
				t.Fatalf("%s gives %d of %d, and the share of each is %d", name, n, had, share)
			}
		}
		v.Away = nil
		for _, mv := range New(v).Moves(1<<20, 0) {
			alone += mv.Tasks
		}
		if moves > alone {
			t.Fatalf("%d tasks move, and %d if nobody were to be back", moves, alone)
		}
	})
}

// leastMoves returns the least number of moves that makes the counts even: the excess
// over the upper bound or the deficit below the lower one, whichever is larger.
func leastMoves(counts []int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	low, high := total/len(counts), (total+len(counts)-1)/len(counts)
	excess, deficit := 0, 0
	for _, n := range counts {
		excess += max(0, n-high)
		deficit += max(0, low-n)
	}
	return max(excess, deficit)
}

// Nodes without a master rely on this: a node that learns of tasks and claims in other
// portions than the others assigns the tasks to the same nodes. Each node claims its
// own tasks, the oldest first.
func TestPlan_M17_IsTheSameInWhateverPortionsTasksAndClaimsAreSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, light := drawUniform(t)
		heavy := m.classes.Of(Class{Type: "h", Weight: rapid.IntRange(1, 5).Draw(t, "weight of a task")})
		for i := range m.nodes {
			m.nodes[i].Weight = rapid.IntRange(1, 4).Draw(t, "weight")
		}
		ids, classOf, want := m.open[light], map[string]*Class{}, map[string]string{}
		m.open = map[*Class][]string{}
		for _, id := range ids {
			classOf[id] = rapid.SampledFrom([]*Class{light, heavy}).Draw(t, "class")
			m.open[classOf[id]] = append(m.open[classOf[id]], id)
		}
		for plan, i := New(m.view()), 0; i < len(ids); i++ {
			want[ids[i]] = plan.Take(ids[i], classOf[ids[i]])
		}
		m.open = map[*Class][]string{}
		for seen := 0; seen < len(ids); {
			known := seen
			for seen = min(seen+rapid.IntRange(1, 60).Draw(t, "more"), len(ids)); known < seen; known++ {
				m.open[classOf[ids[known]]] = append(m.open[classOf[ids[known]]], ids[known])
			}
			for _, n := range m.nodes {
				m.claim(ids[:seen], classOf, want, n.Name, rapid.IntRange(0, 20).Draw(t, "claims"))
			}
			plan := New(m.view())
			for _, id := range ids[:seen] {
				if !slices.Contains(m.open[classOf[id]], id) {
					continue
				}
				if got := plan.Take(id, classOf[id]); got != want[id] {
					t.Fatalf("%s goes to %s, want %s; %d tasks and some claims have been seen", id, got, want[id], seen)
				}
			}
		}
	})
}

// claim makes a node claim the first few of the open tasks whose target it is.
func (m *model) claim(ids []string, classOf map[string]*Class, targets map[string]string, node string, most int) {
	for _, id := range ids {
		if c := classOf[id]; most > 0 && targets[id] == node && slices.Contains(m.open[c], id) {
			m.open[c] = slices.DeleteFunc(m.open[c], func(other string) bool { return other == id })
			m.hold(node, c, 1)
			most--
		}
	}
}

// Otherwise these nodes would have those tasks on top of their share of the others.
func TestPlan_ReservesRoomForTasksThatFewNodesCanRun(t *testing.T) {
	m, any := uniform([]int{0, 0}, 10)
	few := m.classes.Of(Class{Type: "t", Node: "n001"})
	m.submit(few, "few-", 10)
	plan, counts := New(m.view()), map[string]int{}
	for i := range 10 {
		counts[plan.Take(fmt.Sprint("task-", i), any)]++
		counts[plan.Take(fmt.Sprint("few-", i), few)]++
	}
	if counts["n000"] != 10 || counts["n001"] != 10 {
		t.Errorf("%v", counts)
	}
}

func TestPlan_AFurtherTaskAddsOneToOneQuota(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, c := drawUniform(t)
		before := New(m.view())
		m.open[c] = append(m.open[c], "one more")
		after := New(m.view())
		more := 0
		for _, n := range m.nodes {
			by := after.Load(n.Name) - before.Load(n.Name)
			if more += by; by < 0 {
				t.Fatalf("%s gets %d instead of %d", n.Name, after.Load(n.Name), before.Load(n.Name))
			}
		}
		if more != 1 {
			t.Fatalf("one more task is placed %d times", more)
		}
	})
}

// drawMixed draws a cluster in which every feature occurs.
func drawMixed(t *rapid.T) *model {
	m := &model{held: map[string]map[*Class]int{}, open: map[*Class][]string{}}
	types := []string{"a", "b", AnyType}
	for i := range rapid.IntRange(1, 7).Draw(t, "nodes") {
		m.nodes = append(m.nodes, Node{
			Name:     fmt.Sprint("n", i),
			Types:    []string{rapid.SampledFrom(types).Draw(t, "type"), "a"},
			Zone:     rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "zone"),
			Labels:   map[string]string{"disk": rapid.SampledFrom([]string{"ssd", "hdd"}).Draw(t, "disk")},
			Weight:   rapid.IntRange(0, 3).Draw(t, "weight"),
			Capacity: rapid.SampledFrom([]int{0, 0, 10, 30}).Draw(t, "capacity"),
			Closed:   rapid.SampledFrom([]string{"", "", "", "frozen"}).Draw(t, "closed"),
		})
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "classes") {
		c := Class{
			Type:   rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "of type"),
			Weight: rapid.IntRange(0, 4).Draw(t, "task weight"),
			Group:  rapid.SampledFrom([]string{"", "g", "h"}).Draw(t, "group"),
			Node:   rapid.SampledFrom([]string{"", "", "n0"}).Draw(t, "pinned"),
		}
		if rapid.Bool().Draw(t, "requires") {
			c.Require = map[string]string{"disk": "ssd"}
		}
		if rapid.Bool().Draw(t, "prefers") {
			c.Prefer = map[string]string{"zone": "x"}
		}
		k := m.classes.Of(c)
		m.submit(k, fmt.Sprint("task-", i, "-"), rapid.IntRange(0, 20).Draw(t, "open"))
		for range rapid.IntRange(0, 20).Draw(t, "held") {
			n := rapid.SampledFrom(m.nodes).Draw(t, "holder")
			if n.Excludes(k) == "" {
				m.hold(n.Name, k, 1)
			}
		}
	}
	return m
}

func TestPlan_M43_MovesEndAndKeepTheRulesInAnyCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMixed(t)
		before := m.tasks()
		within := map[string]bool{}
		for _, n := range m.nodes {
			within[n.Name] = n.Capacity == 0 || m.load(n.Name) <= n.Capacity
		}
		left := m.place()
		rounds, most := 0, rapid.IntRange(1, 50).Draw(t, "most")
		for moved := m.move(most, 0); moved > 0; moved = m.move(most, 0) {
			if moved > most {
				t.Fatalf("%d moves in a round of %d", moved, most)
			}
			if rounds++; rounds > 1000 {
				t.Fatal("moving does not end")
			}
		}
		if m.tasks()+left != before {
			t.Fatalf("%d tasks of %d are left", m.tasks()+left, before)
		}
		for _, n := range m.nodes {
			if within[n.Name] && n.Capacity > 0 && m.load(n.Name) > n.Capacity {
				t.Errorf("%s has %d; its capacity is %d", n.Name, m.load(n.Name), n.Capacity)
			}
			for c, k := range m.held[n.Name] {
				if why := n.Excludes(c); k > 0 && why != "" {
					t.Errorf("%s has a task although %s", n.Name, why)
				}
			}
		}
	})
}

func TestPlan_DoesNotDependOnTheOrderOfItsInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMixed(t)
		decide := func() string {
			plan := New(m.view())
			var out []string
			classes := slices.Collect(maps.Keys(m.open))
			slices.SortFunc(classes, func(a, b *Class) int { return slices.Compare(m.open[a], m.open[b]) })
			for _, c := range classes {
				for _, id := range m.open[c] {
					out = append(out, id+">"+plan.Take(id, c))
				}
			}
			for _, mv := range plan.Moves(100, 0) {
				out = append(out, fmt.Sprint(mv.From, mv.To, mv.Like.pool, mv.Tasks))
			}
			return fmt.Sprint(out)
		}
		first := decide()
		for range 3 {
			rand.Shuffle(len(m.nodes), func(i, j int) { m.nodes[i], m.nodes[j] = m.nodes[j], m.nodes[i] })
			if again := decide(); again != first {
				t.Fatalf("another order decides otherwise:\n%s\n%s", first, again)
			}
		}
	})
}

func TestPlan_M17_ANodeThatJoinsOrLeavesChangesTheFirstChoiceOfItsOwnTasksOnly(t *testing.T) {
	const tasks = 3000
	first := func(nodes int) map[string]string {
		m, c := uniform(make([]int, nodes), 0)
		got := map[string]string{}
		for i := range tasks {
			id := fmt.Sprint("pkg/", i)
			for _, n := range m.nodes {
				if Rank(id, c, m.nodes, "", n.Name) == 0 {
					got[id] = n.Name
				}
			}
		}
		return got
	}
	three, four := first(3), first(4)
	count, moved := map[string]int{}, 0
	for id, was := range three {
		count[was]++
		if is := four[id]; is != was {
			moved++
			if is != "n003" {
				t.Fatalf("%s moved from %s to %s when another joined", id, was, is)
			}
		}
	}
	for n, k := range count {
		if k < tasks/3*9/10 || k > tasks/3*11/10 {
			t.Errorf("%s is the first choice of %d of %d tasks", n, k, tasks)
		}
	}
	if moved < tasks/4*8/10 || moved > tasks/4*12/10 {
		t.Errorf("%d of %d tasks changed their first choice; a quarter should", moved, tasks)
	}
}

func TestRank_IsAPermutationWithThePlansChoiceFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMixed(t)
		for c := range m.open {
			var open []string
			for _, n := range m.nodes {
				if n.Closed == "" && n.Excludes(c) == "" {
					open = append(open, n.Name)
				}
			}
			first := ""
			if len(open) > 0 && rapid.Bool().Draw(t, "planned") {
				first = rapid.SampledFrom(open).Draw(t, "first")
			}
			seen := map[int]string{}
			for _, name := range open {
				r := Rank("task", c, m.nodes, first, name)
				if other, taken := seen[r]; taken || r >= len(open) {
					t.Fatalf("%s has rank %d of %d, and so has %q", name, r, len(open), other)
				}
				seen[r] = name
			}
			if first != "" && seen[0] != first {
				t.Fatalf("%s is first, not %s", seen[0], first)
			}
		}
	})
}

func TestPlan_TheTolerancePermitsSmallImbalances(t *testing.T) {
	m, _ := uniform([]int{10, 8, 9}, 0)
	if n := m.move(100, 0.1); n != 0 {
		t.Errorf("%d moves for 10, 8, 9 within a tenth", n)
	}
	m, _ = uniform([]int{22, 22, 22, 14}, 0)
	if n := m.move(100, 0.1); n != 6 {
		t.Errorf("%d moves to a node that is far below the others; want 6", n)
	}
	m, _ = uniform([]int{20, 5, 5}, 0)
	if n := m.move(100, 0.1); n == 0 || m.load("n000") > 12 {
		t.Errorf("20, 5, 5 becomes %v after %d moves", m.held, n)
	}
}

func TestPlan_GroupsAreSpreadOverZonesThenNodes(t *testing.T) {
	m, _ := uniform([]int{0, 0, 0, 0}, 0)
	for i := range m.nodes {
		m.nodes[i].Zone = []string{"east", "east", "east", "west"}[i]
	}
	c := m.classes.Of(Class{Type: "t", Group: "replicas"})
	plain := m.classes.Of(Class{Type: "t"})
	m.hold("n003", plain, 5) // the only node of its zone has the highest load
	m.submit(c, "replica-", 4)
	m.place()
	if m.held["n003"][c] != 2 {
		t.Errorf("west has %d of four, not two", m.held["n003"][c])
	}
	for _, n := range m.nodes[:3] {
		if m.held[n.Name][c] > 1 {
			t.Errorf("%s has %d of the two in the east", n.Name, m.held[n.Name][c])
		}
	}
}

func TestPlan_WeightsCapacitiesAndPinsDecideTheShares(t *testing.T) {
	m, _ := uniform([]int{0, 0, 0}, 100)
	m.nodes[0].Weight = 2
	m.nodes[1].Capacity = 10
	pinned := m.classes.Of(Class{Type: "t", Node: "n002"})
	m.submit(pinned, "pinned-", 12)
	m.place()
	if m.load("n001") != 10 || m.held["n002"][pinned] != 12 || m.load("n000") != 68 || m.load("n002") != 34 {
		t.Errorf("n000 has %d, n001 %d, n002 %d of which %d pinned; want 68, 10, 34, 12",
			m.load("n000"), m.load("n001"), m.load("n002"), m.held["n002"][pinned])
	}
	m.nodes[2].Closed = "frozen"
	m.open[pinned] = []string{"another"}
	if plan := New(m.view()); plan.Take("another", pinned) != "" || plan.Unplaced() != 1 {
		t.Error("a closed node got a task")
	}
}

func TestPlan_ReservesRoomForTheTasksOfADrainingNode(t *testing.T) {
	m, c := uniform([]int{10, 10, 4, 8}, 0)
	m.nodes[3].Closed = "draining"
	v := m.view()
	v.Leaving = map[*Class]int{c: 8}
	plan := New(v)
	if moves := plan.Moves(100, 0); len(moves) != 0 {
		t.Errorf("moves %v, although the leaving tasks make the nodes even", moves)
	}
	if plan.Load("n002") != 10 {
		t.Errorf("n002 gets up to %d, want 10 of 32 by three", plan.Load("n002"))
	}
}

// BenchmarkFailover plans for a thousand nodes after one was lost.
func BenchmarkFailover(b *testing.B) {
	for _, tasks := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(tasks), func(b *testing.B) {
			const nodes = 1000
			for b.Loop() {
				m, c := uniform(make([]int, nodes-1), 0)
				held := &Tally{}
				for i := range tasks - tasks/nodes {
					held.Add(m.nodes[i%len(m.nodes)].Name, c, 1)
				}
				plan := New(View{Nodes: m.nodes, Held: held, Open: map[*Class]int{c: tasks / nodes}})
				for i := range tasks / nodes {
					if plan.Take(fmt.Sprint("task-", i), c) == "" {
						b.Fatal("a task is unplaced")
					}
				}
				plan.Moves(1000, 0)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tasks), "ns/task")
		})
	}
}
