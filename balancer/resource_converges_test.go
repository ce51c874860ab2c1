package balancer

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/windlass-go/windlass"
)

// fleet is a cluster without a store: nodes with memory, tasks that need some,
// and what the node's loop does with a balancer, a second at a time.
type fleet struct {
	nodes []*hull
	// needs is the memory of each task; owner is the node that has it, or nil.
	needs []uint64
	owner []*hull
	// since is when a task was claimed or released.
	since []time.Time
	now   time.Time
	moves int
}

// hull is a node. It is its own reporter.
type hull struct {
	*Resource
	fleet       *fleet
	name        string
	base, total uint64
	// forced are the tasks that it claimed above its share, which the node's
	// loop does not offer for evenness; lenient has it offer them all the same.
	forced  map[int]bool
	lenient bool
	// released and again are when it gave a task away and is asked about one.
	released, again map[int]time.Time
}

func (h *hull) String() string { return "crates" }

func (h *hull) Used() (used, total uint64, err error) {
	used = h.base
	for i, n := range h.fleet.needs {
		if h.fleet.owner[i] == h {
			used += n
		}
	}
	return used, h.total, nil
}

func (f *fleet) view(h *hull) *windlass.View {
	v := &windlass.View{Now: f.now, Trigger: windlass.TriggerDrift}
	loads := map[*hull]int{}
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

// step is one second: every node is asked for each task that nobody has, and
// every ten seconds to balance.
func (f *fleet) step(second int) {
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

func (f *fleet) claim(h *hull) {
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

func (f *fleet) balance(h *hull) {
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

func newFleet(t *rapid.T) *fleet {
	f := &fleet{now: time.Unix(1_000_000, 0)}
	f.needs = rapid.SliceOfN(rapid.Uint64Range(0, 40), 1, 24).Draw(t, "needs")
	f.owner, f.since = make([]*hull, len(f.needs)), slices.Repeat([]time.Time{f.now}, len(f.needs))
	acceptAll := rapid.Bool().Draw(t, "Next is AcceptAll")
	lenient := acceptAll || rapid.Bool().Draw(t, "offers what was claimed above the share")
	claim := rapid.IntRange(30, 98).Draw(t, "claim limit")
	release := rapid.IntRange(claim+1, 100).Draw(t, "release limit")
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		h := &hull{
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

func TestResource_M43_AClusterComesToRestAndRunsWhatThereIsRoomFor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(t)
		const rest, longest = 3 * 60 * 60, 48 * 60 * 60
		moves, changed := 0, 0
		for second := 0; second < changed+rest; second++ {
			if f.step(second); f.moves != moves {
				moves, changed = f.moves, second
			}
			if changed > longest {
				t.Fatalf("after %d moves in %d hours it still moves tasks", moves, longest/60/60)
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
