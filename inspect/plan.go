package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// Edit changes the nodes for Inspector.Plan.
type Edit func(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error)

// Plan says which tasks a change of the nodes would move. Its JSON is stable.
type Plan struct {
	// Nodes lists the nodes before and after the change, by name.
	Nodes []PlannedNode `json:"nodes"`
	// Moves lists the tasks that change their node, the largest moves first.
	Moves []PlannedMove `json:"moves"`
	// Moved is the number of those tasks, Waiting the number of tasks that would be
	// unplaced.
	Moved   int `json:"moved"`
	Waiting int `json:"waiting"`
	// Displaced has the IDs of up to five tasks that a node holds and that would be unplaced.
	Displaced []string `json:"displaced,omitempty"`
	// ImbalanceBefore and ImbalanceAfter are the highest load relative to weight
	// divided by the mean, minus one: 0 is even, 1 means a node with twice its share.
	ImbalanceBefore float64 `json:"imbalance_before"`
	ImbalanceAfter  float64 `json:"imbalance_after"`
	// UnspreadBefore and UnspreadAfter are the groups that are spread less evenly than they could
	// be if the loads did not matter, by name.
	UnspreadBefore []Spread `json:"unspread_before"`
	UnspreadAfter  []Spread `json:"unspread_after"`
}

// Spread says where the tasks of a group are. Its JSON is stable.
type Spread struct {
	Group string `json:"group"`
	// Nodes has how many of them each node holds, of those that take tasks.
	Nodes map[string]int `json:"nodes"`
}

// PlannedNode is what a node holds before and after. Its JSON is stable.
type PlannedNode struct {
	Name string `json:"name"`
	// Change is "joins", "leaves", "away" for a node that is gone and is to be back, or empty.
	Change string `json:"change"`
	// Before and After are the total weights of what it holds, or of what is kept for it.
	Before int `json:"before"`
	After  int `json:"after"`
}

// PlannedMove is a number of tasks that move from one node to another. Its JSON is
// stable.
type PlannedMove struct {
	// From is empty for tasks that no node holds, To for tasks that would be unplaced.
	From  string `json:"from"`
	To    string `json:"to"`
	Tasks int    `json:"tasks"`
}

// Plan returns what would move if the nodes changed as edit says. It changes nothing.
// Tasks that run now on a node where they could not run after the change are placed
// anew. The decisions of nodes with their own balancers are not known.
func (i *Inspector) Plan(ctx context.Context, edit Edit) (Plan, error) {
	s, err := i.survey(ctx)
	if err != nil {
		return Plan{}, fmt.Errorf("plan: %w", err)
	}
	before := slices.Clone(s.nodes)
	after, err := edit(slices.Clone(s.nodes))
	if err != nil {
		return Plan{}, err
	}
	for _, n := range after {
		if slices.ContainsFunc(before, func(b windlass.NodeInfo) bool { return reflect.DeepEqual(b, n) }) {
			continue // unchanged
		}
		if err := n.Validate(); err != nil {
			return Plan{}, err
		}
	}
	s.comeBack(after)
	// A task that is about to be killed needs no node.
	open := s.open(time.Now(), func(a kind.Answer) bool { return a.Skipped == "" })
	now := placement.New(s.viewOf(before, nil))
	report := Plan{ImbalanceBefore: now.Imbalance(), UnspreadBefore: groupSpreads(now)}
	m := &planSimulation{survey: s, moves: map[PlannedMove]int{}, after: after}
	m.place(open)
	m.balance()
	then := placement.New(s.viewOf(after, nil))
	report.ImbalanceAfter, report.UnspreadAfter = then.Imbalance(), groupSpreads(then)
	report.Waiting, report.Displaced = m.waiting, m.displaced
	report.Moves, report.Moved = m.list()
	report.Nodes = s.compareNodes(before, after, m.held)
	return report, nil
}

// groupSpreads returns the groups that are not spread.
func groupSpreads(p *placement.Plan) []Spread {
	spreads, unspread := []Spread{}, p.Unspread()
	for _, group := range slices.Sorted(maps.Keys(unspread)) {
		spreads = append(spreads, Spread{Group: group, Nodes: unspread[group]})
	}
	return spreads
}

// viewOf returns the cluster with other nodes.
func (s *survey) viewOf(nodes []windlass.NodeInfo, open map[*placement.Class]int) placement.View {
	v := placement.View{Held: &s.tally, Open: open}
	for _, a := range s.away {
		v.Away = append(v.Away, a.Node)
	}
	for i := range nodes {
		v.Nodes = append(v.Nodes, s.placed(&nodes[i]))
	}
	return v
}

// planSimulation carries out a plan on a survey's counts.
type planSimulation struct {
	*survey
	after     []windlass.NodeInfo
	held      map[string]int // weights before
	moves     map[PlannedMove]int
	waiting   int
	displaced []string
}

// place assigns a node to the tasks that no node holds, and to those that their node
// cannot keep.
func (m *planSimulation) place(open []*mirror.Task) {
	m.held = map[string]int{}
	stays := map[string]placement.Node{}
	for i := range m.after {
		if n := &m.after[i]; !n.Draining && !n.Returning && m.silent[n.Name].IsZero() {
			stays[n.Name] = m.placed(n)
		}
	}
	unplaced := slices.Clone(open)
	for t := range m.tasks.All() {
		if !t.Owned() {
			continue
		}
		c := m.kinds.OfTask(t).Class
		m.held[t.Owner] += c.Weight
		if n, ok := stays[t.Owner]; !ok || n.Excludes(c) != "" {
			unplaced = append(unplaced, t)
		}
	}
	classes := map[*placement.Class]int{}
	for _, t := range unplaced {
		classes[m.kinds.OfTask(t).Class]++
		if t.Owned() {
			m.tally.Add(t.Owner, m.kinds.OfTask(t).Class, -1)
		}
	}
	slices.SortFunc(unplaced, m.byTurn)
	plan := placement.New(m.viewOf(m.after, classes))
	for _, t := range unplaced {
		c := m.kinds.OfTask(t).Class
		to := plan.Take(t.ID, c)
		if to == "" {
			if m.waiting++; t.Owned() && len(m.displaced) < displacedMax {
				m.displaced = append(m.displaced, t.ID)
			}
		} else {
			m.tally.Add(to, c, 1)
		}
		if t.Owner != to {
			m.moves[PlannedMove{From: t.Owner, To: to}]++
		}
	}
}

// balance carries out the moves that balance the rest. One move may make another one possible.
func (m *planSimulation) balance() {
	for range plannedRoundsMax {
		plan := placement.New(m.viewOf(m.after, nil))
		moves := plan.Moves(plannedMovesMax, 0)
		if len(moves) == 0 {
			moves = plan.Spread(plannedMovesMax)
		}
		if len(moves) == 0 {
			return
		}
		m.carryOut(moves)
	}
}

func (m *planSimulation) carryOut(moves []placement.Move) {
	for _, mv := range moves {
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

// The limits of one plan: of the moves of a round, of the rounds, and of the tasks that are named.
const (
	plannedMovesMax  = 1_000_000
	plannedRoundsMax = 20
	displacedMax     = 5
)

func (m *planSimulation) list() (moves []PlannedMove, moved int) {
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

func (s *survey) compareNodes(before, after []windlass.NodeInfo, held map[string]int) []PlannedNode {
	nodes := map[string]PlannedNode{}
	for _, a := range s.away {
		kept := s.tally.Of(a.Name).Weight
		nodes[a.Name] = PlannedNode{Name: a.Name, Change: "away", Before: kept, After: kept}
	}
	for _, n := range before {
		nodes[n.Name] = PlannedNode{Name: n.Name, Change: "leaves", Before: held[n.Name]}
	}
	for _, n := range after {
		p, there := nodes[n.Name]
		p.Name, p.Change, p.After = n.Name, "", s.tally.Of(n.Name).Weight
		if !there {
			p.Change = "joins"
		}
		nodes[n.Name] = p
	}
	return slices.SortedFunc(maps.Values(nodes), func(a, b PlannedNode) int { return cmp.Compare(a.Name, b.Name) })
}
