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
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/placement"
)

// survey is the cluster at one moment, for questions about placement.
type survey struct {
	space keys.Space
	nodes []NodeInfo
	tasks *mirror.Tasks
	kinds *kinds
	tally placement.Tally
}

// survey reads the nodes and the tasks.
func (c *Client) survey(ctx context.Context) (*survey, error) {
	s := &survey{space: c.space, kinds: newKinds()}
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
		Kind:  func(spec []byte) any { return s.kinds.of(spec) },
		Count: func(t *mirror.Task, by int) { s.tally.Add(t.Owner, s.kindOf(t).class, by) },
	})
	s.tasks.Reset(&mirror.Snapshot{KVs: kvs, Revision: revision})
	return s, nil
}

func (s *survey) kindOf(t *mirror.Task) *kind {
	if k, ok := t.Kind.(*kind); ok {
		return k
	}
	return s.kinds.of(nil)
}

// blockers are the tasks that one waits for and that exist.
func (s *survey) blockers(t *mirror.Task) []string {
	there := []string{}
	for _, b := range depend.Blockers(t.ID, s.kindOf(t).spec.Needs) {
		if blocks(s.tasks.Remains(b)) {
			there = append(there, b)
		}
	}
	return there
}

// cycle is the way from a task back to itself through tasks that nobody holds; nil if
// there is none.
func (s *survey) cycle(t *mirror.Task) []string {
	return depend.Cycle(t.ID, func(id string) []string {
		if at := s.tasks.Get(id); at != nil && !at.Owned() {
			return s.blockers(at)
		}
		return nil
	})
}

// open are the tasks that nobody holds and that could be claimed, the oldest
// first.
func (s *survey) open(now time.Time) []*mirror.Task {
	var open []*mirror.Task
	for t := range s.tasks.All() {
		k := s.kindOf(t)
		if !t.Owned() && k.err == nil && !k.spec.NotBefore.After(now) && len(s.blockers(t)) == 0 {
			open = append(open, t)
		}
	}
	slices.SortFunc(open, byAge)
	return open
}

// view is the cluster for the planner, with the nodes as they are.
func (s *survey) view(open []*mirror.Task) placement.View {
	v := placement.View{Held: &s.tally, Open: map[*placement.Class]int{}, Leaving: map[*placement.Class]int{}}
	for i := range s.nodes {
		v.Nodes = append(v.Nodes, s.nodes[i].placed())
		if s.nodes[i].Draining {
			for c, n := range s.tally.Of(s.nodes[i].Name).Classes {
				v.Leaving[c] += n
			}
		}
	}
	for _, t := range open {
		v.Open[s.kindOf(t).class]++
	}
	return v
}
