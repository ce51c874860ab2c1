package windlass

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// survey is the cluster at one moment, for questions about placement.
type survey struct {
	space keys.Space
	nodes []NodeInfo
	tasks *mirror.Tasks
	kinds *kind.Kinds[Spec]
	tally placement.Tally
}

// survey reads the nodes and the tasks.
func (c *Client) survey(ctx context.Context) (*survey, error) {
	s := &survey{space: c.space, kinds: kind.New(readKind)}
	kvs, revision, err := broker.Collect(ctx, c.broker, c.space.Nodes())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	nodes := mirror.NewNodes(c.space)
	nodes.Reset(&mirror.Snapshot{KVs: kvs, Revision: revision})
	for _, n := range nodes.Registered() {
		info := NodeInfo{}
		if json.Unmarshal(n.Info, &info) != nil {
			info = NodeInfo{Frozen: true} // it is there, and takes nothing that anybody knows of
		}
		info.Name = n.Name
		s.nodes = append(s.nodes, info)
	}
	if kvs, revision, err = broker.Collect(ctx, c.broker, c.space.Tasks()); err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	s.tasks = mirror.NewTasks(c.space, mirror.Keep{
		Skips: skips,
		Kind:  func(spec []byte) any { return s.kinds.Of(spec) },
		Count: func(t *mirror.Task, by int) { s.tally.Add(t.Owner, s.kinds.OfTask(t).Class, by) },
	})
	s.tasks.Reset(&mirror.Snapshot{KVs: kvs, Revision: revision})
	return s, nil
}

// cycle is the way from a task back to itself through tasks that nobody holds; nil if
// there is none.
func (s *survey) cycle(t *mirror.Task) []string {
	return depend.Cycle(t.ID, func(id string) []string {
		at := s.tasks.Get(id)
		if at == nil || at.Owned() {
			return nil
		}
		waits, _ := kind.Waits(depend.Blockers(id, s.kinds.OfTask(at).Needs), s.tasks)
		return waits
	})
}

// claimable says whether a task could be claimed; the error, why it never can.
func (s *survey) claimable(t *mirror.Task, now time.Time) (kind.Answer, error) {
	k := s.kinds.OfTask(t)
	if k.Err != nil {
		return kind.Answer{}, k.Err
	}
	blockers, err := k.Blockers(t)
	if err != nil {
		return kind.Answer{}, err
	}
	return k.Claimable(t, blockers, s.tasks, now), nil
}

// byTurn orders tasks by whose turn it is.
func (s *survey) byTurn(a, b *mirror.Task) int {
	place := func(t *mirror.Task) kind.Place { return s.kinds.OfTask(t).Place(t.ID, t.Created) }
	return place(a).Compare(place(b))
}

// open are the tasks that could be claimed and that are wanted, in the order in which it is
// their turn.
func (s *survey) open(now time.Time, wanted func(kind.Answer) bool) []*mirror.Task {
	var open []*mirror.Task
	for t := range s.tasks.All() {
		if a, err := s.claimable(t, now); err == nil && a.Open && wanted(a) {
			open = append(open, t)
		}
	}
	slices.SortFunc(open, s.byTurn)
	return open
}

// shortLived are the types that some node names as short-lived, as every node takes them to be.
func shortLived(nodes []NodeInfo) map[string]bool {
	named := map[string]bool{}
	for i := range nodes {
		for _, name := range validTypes(nodes[i].ShortLived) {
			named[name] = true
		}
	}
	return named
}

// view is the cluster for the planner, with the nodes as they are.
func (s *survey) view(open []*mirror.Task) placement.View {
	v := placement.View{Held: &s.tally, Open: map[*placement.Class]int{}, Leaving: map[*placement.Class]int{}, Brief: shortLived(s.nodes)}
	for i := range s.nodes {
		v.Nodes = append(v.Nodes, s.nodes[i].placed())
		if s.nodes[i].Draining {
			for c, n := range s.tally.Of(s.nodes[i].Name).Classes {
				v.Leaving[c] += n
			}
		}
	}
	for _, t := range open {
		v.Open[s.kinds.OfTask(t).Class]++
	}
	return v
}
