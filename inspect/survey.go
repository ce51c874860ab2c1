package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/kind"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/schedule"
	"github.com/windlass-go/windlass/internal/specs"
	"github.com/windlass-go/windlass/placement"
)

// survey is the cluster at one moment, for questions about placement.
type survey struct {
	space keys.Space
	nodes []windlass.NodeInfo
	tasks *mirror.Tasks
	kinds *kind.Kinds[struct{}]
	tally placement.Tally
	// book has the deaths of nodes.
	book deaths.Book
	// cordons has the cordons by node.
	cordons map[string]*windlass.Suspension
	// silent has since when the nodes are not renewed that are not. away has the nodes that are
	// gone and are to be back.
	silent map[string]time.Time
	away   map[string]schedule.Away
	// paused returns the pause of a type, nil for none.
	paused func(taskType string) *windlass.Suspension
}

// placed converts a node for the planner. One that is not renewed takes nothing.
func (s *survey) placed(n *windlass.NodeInfo) placement.Node {
	placed := n.Placed()
	if !s.silent[n.Name].IsZero() {
		placed.Closed = "dead or cut off"
	}
	return placed
}

// survey reads the nodes and the tasks.
func (i *Inspector) survey(ctx context.Context) (*survey, error) {
	s := &survey{space: i.space, kinds: specs.Kinds(), cordons: map[string]*windlass.Suspension{}, silent: map[string]time.Time{}, away: map[string]schedule.Away{}}
	silent, err := i.client.Silence().Of(ctx, i.broker, i.space.Sessions())
	if err != nil {
		return nil, fmt.Errorf("see who is renewed: %w", err)
	}
	nodes, err := mirror.ListNodes(ctx, i.broker, i.space)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	s.paused = func(taskType string) *windlass.Suspension { return windlass.ParseSuspension(nodes.PauseOf(taskType)) }
	for _, n := range nodes.Registered() {
		info := windlass.NodeInfo{}
		if json.Unmarshal(n.Info, &info) != nil {
			info = windlass.NodeInfo{Frozen: true} // it exists, and what it takes is unknown
		}
		info.Name = n.Name
		s.nodes, s.cordons[n.Name], s.silent[n.Name] = append(s.nodes, info), windlass.ParseSuspension(n.Cordon, n.Cordoned), silent[n.Session]
	}
	kvs, revision, err := broker.Collect(ctx, i.broker, i.space.Tasks())
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	s.tasks = mirror.NewTasks(i.space, mirror.Keep{
		Skips: coordinator.Skips,
		Kind:  func(spec []byte) any { return s.kinds.Of(spec) },
		Count: func(t *mirror.Task, by int) { s.tally.Add(t.Owner, s.kinds.OfTask(t).Class, by) },
	})
	s.tasks.Reset(&mirror.Snapshot{KVs: kvs, Revision: revision})
	now := time.Now()
	s.book.Set(deaths.Recorded(nodes), true, s.tasks.CreatedAt, now)
	s.leave(nodes, now)
	return s, nil
}

// cycle returns the path from a task back to itself through tasks that no node holds;
// nil if there is none.
func (s *survey) cycle(t *mirror.Task) []string {
	return depend.Cycle(t.ID, func(id string) []string {
		at := s.tasks.Get(id)
		if at == nil || at.Owned() {
			return nil
		}
		return slices.DeleteFunc(s.kinds.OfTask(at).Blockers(id), func(need string) bool { return !kind.Blocks(need, s.tasks) })
	})
}

// byTurn compares tasks by their turn.
func (s *survey) byTurn(a, b *mirror.Task) int {
	place := func(t *mirror.Task) kind.Place { return s.kinds.OfTask(t).Place(t.ID, t.Created) }
	return place(a).Compare(place(b))
}

// open returns the tasks that could be claimed and that are wanted, in the order of
// their turn.
func (s *survey) open(now time.Time, wanted func(kind.Answer) bool) []*mirror.Task {
	var open []*mirror.Task
	for t := range s.tasks.All() {
		k := s.kinds.OfTask(t)
		if a := k.Claimable(t, k.Blockers(t.ID), s.tasks, now); a.Open && wanted(a) && s.keptFor(t, now) == nil {
			open = append(open, t)
		}
	}
	slices.SortFunc(open, s.byTurn)
	return open
}

// shortLived returns the types that some node lists as short-lived; every node treats
// them so.
func shortLived(nodes []windlass.NodeInfo) map[string]bool {
	named := map[string]bool{}
	for i := range nodes {
		for _, name := range schedule.ValidTypes(nodes[i].ShortLived) {
			named[name] = true
		}
	}
	return named
}

// view returns the cluster for the planner, with the nodes as they are.
func (s *survey) view(open []*mirror.Task) placement.View {
	v := s.viewOf(s.nodes, map[*placement.Class]int{})
	v.Leaving, v.ShortLived = map[*placement.Class]int{}, shortLived(s.nodes)
	for i := range s.nodes {
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
