package windlass

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// NodeEdit changes what the nodes are, for Client.Plan.
type NodeEdit func(nodes []NodeInfo) ([]NodeInfo, error)

// PlanReport says what a change of the nodes would move. Its JSON is stable.
type PlanReport struct {
	// Nodes are those of before and after, by name.
	Nodes []PlannedNode `json:"nodes"`
	// Moves are the tasks that change their node, the most first.
	Moves []PlannedMove `json:"moves"`
	// Moved is how many tasks that are, Waiting how many would have no place.
	Moved   int `json:"moved"`
	Waiting int `json:"waiting"`
	// ImbalanceBefore and ImbalanceAfter are the highest load for its weight over
	// the mean, less one: 0 is even, 1 is a node with twice its share.
	ImbalanceBefore float64 `json:"imbalance_before"`
	ImbalanceAfter  float64 `json:"imbalance_after"`
}

// PlannedNode is what a node holds before and after. Its JSON is stable.
type PlannedNode struct {
	Name string `json:"name"`
	// Change says what becomes of the node: "joins", "leaves", or nothing.
	Change string `json:"change"`
	// Before and After are the weights of what it holds.
	Before int `json:"before"`
	After  int `json:"after"`
}

// PlannedMove are tasks that go from one node to another. Its JSON is stable.
type PlannedMove struct {
	// From is empty for tasks that nobody holds, To for those that have no place.
	From  string `json:"from"`
	To    string `json:"to"`
	Tasks int    `json:"tasks"`
}

// Plan says what would move if the nodes were others than they are: nothing is
// changed. Tasks that run now where a node of the change may not run them are
// placed anew. What nodes with balancers of their own would do is not known.
func (c *Client) Plan(ctx context.Context, edit NodeEdit) (PlanReport, error) {
	s, err := c.survey(ctx)
	if err != nil {
		return PlanReport{}, fmt.Errorf("plan: %w", err)
	}
	before := slices.Clone(s.nodes)
	after, err := edit(slices.Clone(s.nodes))
	if err != nil {
		return PlanReport{}, err
	}
	for _, n := range after {
		if slices.ContainsFunc(before, func(b NodeInfo) bool { return reflect.DeepEqual(b, n) }) {
			continue // it is as it is
		}
		if err := checkPlanned(n); err != nil {
			return PlanReport{}, err
		}
	}
	// What is about to be killed needs no place.
	open := s.open(time.Now(), func(a kind.Answer) bool { return a.Skipped == "" })
	report := PlanReport{ImbalanceBefore: placement.New(s.viewOf(before, nil)).Imbalance()}
	m := &removal{survey: s, moves: map[PlannedMove]int{}, after: after}
	m.place(open)
	m.balance()
	report.ImbalanceAfter = placement.New(s.viewOf(after, nil)).Imbalance()
	report.Waiting = m.waiting
	report.Moves, report.Moved = m.list()
	report.Nodes = compareNodes(before, after, m.held, &s.tally)
	return report, nil
}

// checkPlanned refuses a node that NewNode would refuse.
func checkPlanned(n NodeInfo) error {
	if err := keys.CheckNodeName(n.Name); err != nil {
		return badName(err)
	}
	return Config{Capacity: n.Capacity, Weight: n.Weight, Labels: n.Labels}.checkPlacement()
}

// viewOf is the cluster with other nodes.
func (s *survey) viewOf(nodes []NodeInfo, open map[*placement.Class]int) placement.View {
	v := placement.View{Held: &s.tally, Open: open}
	for i := range nodes {
		v.Nodes = append(v.Nodes, nodes[i].placed())
	}
	return v
}

// removal carries a plan out on a survey's counts.
type removal struct {
	*survey
	after   []NodeInfo
	held    map[string]int // weights before
	moves   map[PlannedMove]int
	waiting int
}

// place gives a node to the tasks that nobody holds, and to those that their
// node cannot keep.
func (m *removal) place(open []*mirror.Task) {
	m.held = map[string]int{}
	stays := map[string]placement.Node{}
	for i := range m.after {
		if m.after[i].closed() == "" || m.after[i].closed() == "frozen" || m.after[i].closed() == "overloaded" {
			stays[m.after[i].Name] = m.after[i].placed()
		}
	}
	homeless := slices.Clone(open)
	for t := range m.tasks.All() {
		if !t.Owned() {
			continue
		}
		c := m.kinds.OfTask(t).Class
		m.held[t.Owner] += c.Weight
		if n, ok := stays[t.Owner]; !ok || n.Excludes(c) != "" {
			homeless = append(homeless, t)
		}
	}
	classes := map[*placement.Class]int{}
	for _, t := range homeless {
		classes[m.kinds.OfTask(t).Class]++
		if t.Owned() {
			m.tally.Add(t.Owner, m.kinds.OfTask(t).Class, -1)
		}
	}
	slices.SortFunc(homeless, m.byTurn)
	plan := placement.New(m.viewOf(m.after, classes))
	for _, t := range homeless {
		c := m.kinds.OfTask(t).Class
		to := plan.Take(t.ID, c)
		if to == "" {
			m.waiting++
		} else {
			m.tally.Add(to, c, 1)
		}
		if t.Owner != to {
			m.moves[PlannedMove{From: t.Owner, To: to}]++
		}
	}
}

// balance carries out the moves that even the rest out.
func (m *removal) balance() {
	for _, mv := range placement.New(m.viewOf(m.after, nil)).Moves(plannedMovesMax, 0) {
		m.moves[PlannedMove{From: mv.From, To: mv.To}] += mv.Tasks
		left := mv.Tasks
		for _, c := range slices.Collect(maps.Keys(m.tally.Of(mv.From).Classes)) {
			if n := min(left, m.tally.Of(mv.From).Classes[c]); mv.Covers(c) && n > 0 {
				m.tally.Add(mv.From, c, -n)
				m.tally.Add(mv.To, c, n)
				left -= n
			}
		}
	}
}

// plannedMovesMax bounds the moves of one plan.
const plannedMovesMax = 1_000_000

func (m *removal) list() (moves []PlannedMove, moved int) {
	moves = []PlannedMove{}
	for mv, n := range m.moves {
		mv.Tasks = n
		moves = append(moves, mv)
		if mv.From != "" {
			moved += n
		}
	}
	slices.SortFunc(moves, func(a, b PlannedMove) int {
		return cmp.Or(cmp.Compare(b.Tasks, a.Tasks), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	return moves, moved
}

func compareNodes(before, after []NodeInfo, held map[string]int, tally *placement.Tally) []PlannedNode {
	nodes := map[string]PlannedNode{}
	for _, n := range before {
		nodes[n.Name] = PlannedNode{Name: n.Name, Change: "leaves", Before: held[n.Name]}
	}
	for _, n := range after {
		p, there := nodes[n.Name]
		p.Name, p.Change, p.After = n.Name, "", tally.Of(n.Name).Weight
		if !there {
			p.Change = "joins"
		}
		nodes[n.Name] = p
	}
	return slices.SortedFunc(maps.Values(nodes), func(a, b PlannedNode) int { return cmp.Compare(a.Name, b.Name) })
}
