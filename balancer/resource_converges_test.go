package balancer

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
)

// simulation is a cluster without a store: nodes with memory, tasks that need some of
// it, and the calls that a node's loop makes to its balancer, in steps of a second.
type simulation struct {
	nodes []*simNode
	// needs is the memory that each task needs; owner is the node that holds it, or nil.
	needs []uint64
	owner []*simNode
	// since is when a task was claimed or released.
	since []time.Time
	now   time.Time
	moves int
}

// simNode is a node and the reporter of its own memory.
type simNode struct {
	*Resource
	fleet       *simulation
	name        string
	base, total uint64
	// forced has the tasks that it claimed above its share. The node's loop does not
	// offer them for balance, unless lenient is set.
	forced  map[int]bool
	lenient bool
	// released is when it gave each task away, again when it is next asked about each.
	released, again map[int]time.Time
}

func (h *simNode) String() string { return "bytes" }

func (h *simNode) Used() (used, total uint64, err error) {
	used = h.base
	for i, n := range h.fleet.needs {
		if h.fleet.owner[i] == h {
			used += n
		}
	}
	return used, h.total, nil
}

func (f *simulation) view(h *simNode) *windlass.View {
	v := &windlass.View{Now: f.now, Trigger: events.TriggerDrift}
	loads := map[*simNode]int{}
	for _, o := range f.owner {
		loads[o]++
	}
	for _, n := range f.nodes {
		load := windlass.NodeLoad{Name: n.name, Tasks: loads[n]}
		if n == h {
			v.Self = load
		} else {
			v.Nodes = append(v.Nodes, load)
		}
	}
	v.Unowned = loads[nil]
	return v
}

// step runs one second. Every node is asked about each task without an owner, and
// balances every ten seconds.
func (f *simulation) step(second int) {
	f.now = f.now.Add(time.Second)
	for i := range f.nodes {
		h := f.nodes[(i+second)%len(f.nodes)]
		if slices.Contains(f.owner, nil) {
			f.claim(h)
		}
		if (second+i)%10 == 0 {
			f.balance(h)
		}
	}
}

func (f *simulation) claim(h *simNode) {
	v := f.view(h)
	for t, o := range f.owner {
		if o != nil || f.now.Before(h.again[t]) || f.now.Sub(h.released[t]) < 2*time.Second {
			continue
		}
		over := v.Self.Tasks >= v.Share()
		ok, again := h.CanClaim(v, windlass.Candidate{Task: named(fmt.Sprint(t)), Waiting: f.now.Sub(f.since[t])})
		h.again[t] = again
		if ok {
			f.owner[t], f.since[t], h.forced[t] = h, f.now, over
			v.Self.Tasks++
			v.Unowned--
		}
	}
}

func (f *simulation) balance(h *simNode) {
	v := f.view(h)
	for t, o := range f.owner {
		if o == h && f.now.Sub(f.since[t]) >= 10*time.Second && (h.lenient || !h.forced[t]) {
			v.Running = append(v.Running, windlass.RunningTask{ID: fmt.Sprint(t), Token: f.since[t].Unix(), Started: f.since[t]})
		}
	}
	slices.SortFunc(v.Running, func(a, b windlass.RunningTask) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	for _, id := range h.Balance(v) {
		var t int
		fmt.Sscan(id, &t)
		f.owner[t], f.since[t], h.released[t] = nil, f.now, f.now
		f.moves++
	}
}

func newSimulation(t *rapid.T) *simulation {
	f := &simulation{now: time.Unix(1_000_000, 0)}
	f.needs = rapid.SliceOfN(rapid.Uint64Range(0, 40), 1, 24).Draw(t, "needs")
	f.owner, f.since = make([]*simNode, len(f.needs)), slices.Repeat([]time.Time{f.now}, len(f.needs))
	acceptAll := rapid.Bool().Draw(t, "Next is AcceptAll")
	lenient := acceptAll || rapid.Bool().Draw(t, "offers tasks claimed above the share")
	claim := rapid.IntRange(30, 98).Draw(t, "claim limit")
	release := rapid.IntRange(claim+1, 100).Draw(t, "release limit")
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		h := &simNode{
			fleet: f, name: fmt.Sprint("n", i), lenient: lenient,
			total:  rapid.Uint64Range(50, 400).Draw(t, "memory"),
			forced: map[int]bool{}, released: map[int]time.Time{}, again: map[int]time.Time{},
		}
		h.base = rapid.Uint64Range(0, h.total/2).Draw(t, "used by others")
		r, err := NewResource(h, claim, release)
		if err != nil {
			t.Fatal(err)
		}
		if acceptAll {
			r.Next = AcceptAll{}
		}
		h.Resource = r
		f.nodes = append(f.nodes, h)
	}
	for i := range f.owner {
		if n := rapid.IntRange(-1, len(f.nodes)-1).Draw(t, "owner"); n >= 0 {
			f.owner[i] = f.nodes[n]
		}
	}
	return f
}

func TestResource_M43_AClusterComesToRestAndUsesItsRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newSimulation(t)
		const rest, longest = 3 * 60 * 60, 48 * 60 * 60
		moves, changed := 0, 0
		for second := 0; second < changed+rest; second++ {
			if f.step(second); f.moves != moves {
				moves, changed = f.moves, second
			}
			if changed > longest {
				t.Fatalf("it still moves tasks after %d moves in %d hours", moves, longest/60/60)
			}
		}
		if most := 8 * len(f.needs) * len(f.nodes); moves > most {
			t.Errorf("it took %d moves of %d tasks on %d nodes", moves, len(f.needs), len(f.nodes))
		}
		if len(f.needs) == 1 && moves > 0 {
			t.Errorf("the only task moved %d times", moves)
		}
		for _, h := range f.nodes {
			if percent, _ := percentUsed(h); percent < h.claimLimit && slices.Contains(f.owner, nil) {
				t.Errorf("%s is at %d%%, below %d%%, and leaves tasks waiting", h.name, percent, h.claimLimit)
			}
		}
	})
}
