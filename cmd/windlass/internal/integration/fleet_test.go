package integration_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/zksuite"
	"github.com/windlass-go/windlass/windlasstest"
)

// fleet is a cluster on the broker in memory whose tests are about who runs what.
type fleet struct {
	*cluster
	// stopTakes is how long a handler takes to return after its context has ended.
	stopTakes time.Duration
	asked     atomic.Int32 // claims
	// refused are the nodes of claims on what another node had, or what was gone.
	refused []string
	// braked counts the calls of Events.Braked.
	braked atomic.Int32
}

func inFleet(t *testing.T, test func(t *testing.T, f *fleet)) {
	t.Helper()
	inMemory(t, func(t *testing.T, c *cluster) { test(t, &fleet{cluster: c}) })
}

// inFleets is inFleet on each broker.
func inFleets(t *testing.T, test func(t *testing.T, f *fleet)) {
	t.Helper()
	inEach(t, func(t *testing.T, c *cluster) { test(t, &fleet{cluster: c}) })
}

// claimsRefused returns the number of refused claims of these nodes, or of all.
func (f *fleet) claimsRefused(nodes ...string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, node := range f.refused {
		if len(nodes) == 0 || slices.Contains(nodes, node) {
			n++
		}
	}
	return n
}

// until is the handler of tasks that run until they are stopped.
func (f *fleet) until(ctx context.Context, _ *windlass.Claim) error {
	<-ctx.Done()
	if f.stopTakes > 0 && !errors.Is(context.Cause(ctx), windlasstest.ErrKilled) {
		time.Sleep(f.stopTakes)
	}
	return ctx.Err()
}

// node starts a node that handles every type, and counts what becomes of its claims.
func (f *fleet) node(name string, configure ...func(*windlass.Config)) *windlasstest.Node {
	f.t.Helper()
	counted := intercept(func(m *interceptor) {
		m.claim = func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
			results := m.Coordinator.Claim(ctx, wanted)
			f.asked.Add(int32(len(wanted)))
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, r := range results {
				if errors.Is(r.Err, coordinator.ErrOwned) || errors.Is(r.Err, coordinator.ErrGone) {
					f.refused = append(f.refused, name)
				}
			}
			return results
		}
	})
	braked := func(c *windlass.Config) { c.Events.Braked = func(int, int) { f.braked.Add(1) } }
	return f.join(name, append([]func(*windlass.Config){running(f.until), counted, braked}, configure...)...)
}

// nodes starts n nodes named n00 and so on, and lets them know of each other.
func (f *fleet) nodes(n int, configure ...func(*windlass.Config)) (all []*windlasstest.Node) {
	f.t.Helper()
	for i := range n {
		all = append(all, f.node(fmt.Sprintf("n%02d", i), configure...))
	}
	f.Advance(time.Second)
	return all
}

// submit submits n tasks with the name as a prefix, oldest first.
func (f *fleet) submit(name string, n int, spec windlass.Spec) (ids []string) {
	f.t.Helper()
	var batch []windlass.Submission
	for i := range n {
		ids = append(ids, fmt.Sprintf("%s-%04d", name, i))
		batch = append(batch, windlass.Submission{ID: ids[i], Spec: spec})
	}
	f.Submit(batch...)
	return ids
}

// load returns how many of these tasks each node runs, or of all tasks.
func (f *fleet) load(ids ...string) map[string]int {
	load := map[string]int{}
	for id, node := range f.holders() {
		if len(ids) == 0 || slices.Contains(ids, id) {
			load[node]++
		}
	}
	return load
}

// anyOn returns a task that a node runs.
func (f *fleet) anyOn(name string) string {
	f.t.Helper()
	for id, node := range f.holders() {
		if node == name {
			return id
		}
	}
	f.t.Fatalf("%s runs nothing", name)
	return ""
}

// fewMoves fails if far more tasks were started than necessary. Package placement proves that
// one plan has the fewest moves; here several nodes plan independently.
func (f *fleet) fewMoves(since map[string]int, needed int) {
	f.t.Helper()
	n := f.moves(since)
	f.t.Logf("%d moves, and %d are needed", n, needed)
	if n > 2*needed {
		f.t.Errorf("%d moves, and %d are needed", n, needed)
	}
}

// even fails unless the nodes run the same number of tasks, within the tolerated drift.
// Package placement proves that a single plan is even within one task.
func (f *fleet) even(names ...string) {
	f.t.Helper()
	want := map[string]int{}
	for _, name := range names {
		want[name] = 1
	}
	f.shared(want)
}

// allRun waits until n tasks run.
func (f *fleet) allRun(within time.Duration, n int) {
	f.t.Helper()
	f.WaitUntil(within, fmt.Sprintf("%d tasks run", n), f.allRunning(n))
}

// briefly is for how long to see that nothing happens: on ZooKeeper time is real.
func briefly(d time.Duration) time.Duration {
	if zksuite.On() {
		return min(d, 15*time.Second)
	}
	return d
}

// still fails if a task is started within d.
func (f *fleet) still(d time.Duration) {
	f.t.Helper()
	before := f.starts()
	f.Advance(briefly(d))
	if n := f.moves(before); n > 0 {
		f.t.Errorf("%d tasks were started in %v in which nothing happened", n, d)
	}
}

// unmoved fails if a task is on another node than before.
func (f *fleet) unmoved(before map[string]string) {
	f.t.Helper()
	after := f.holders()
	var moved []string
	for _, id := range slices.Sorted(maps.Keys(before)) {
		if after[id] != before[id] {
			moved = append(moved, fmt.Sprintf("%s from %s to %q", id, before[id], after[id]))
		}
	}
	if len(moved) > 0 {
		f.t.Errorf("%d of %d tasks moved: %q", len(moved), len(before), moved[:min(len(moved), 5)])
	}
}

func names(nodes []*windlasstest.Node) (all []string) {
	for _, n := range nodes {
		all = append(all, n.Name())
	}
	return all
}

func weighing(w int) func(*windlass.Config) { return func(c *windlass.Config) { c.Weight = w } }

func holding(capacity int) func(*windlass.Config) {
	return func(c *windlass.Config) { c.Capacity = capacity }
}

func inZone(zone string) func(*windlass.Config) { return func(c *windlass.Config) { c.Zone = zone } }

func balancedBy(b func() windlass.Balancer) func(*windlass.Config) {
	return func(c *windlass.Config) { c.Balancer = b() }
}

func labelled(k, v string) func(*windlass.Config) {
	return func(c *windlass.Config) { c.Labels = map[string]string{k: v} }
}

func returning(d time.Duration) func(*windlass.Config) {
	return func(c *windlass.Config) { c.ReturnWithin = d }
}

func failingOver(perSecond int) func(*windlass.Config) {
	return func(c *windlass.Config) { c.FailoverRate = perSecond }
}

func (f *fleet) handling(types ...string) func(*windlass.Config) {
	return func(c *windlass.Config) {
		c.Handlers = map[string]windlass.NewHandler{}
		for _, name := range types {
			also(name, f.until)(c)
		}
	}
}

// loaded fails unless load returns want.
func (f *fleet) loaded(want map[string]int, ids ...string) {
	f.t.Helper()
	if got := f.load(ids...); !maps.Equal(got, want) {
		f.t.Errorf("the nodes run %v, not %v", got, want)
	}
}

// shared fails unless the nodes run tasks in proportion to these weights, within the tolerated
// drift of a tenth and one task.
func (f *fleet) shared(weights map[string]int) {
	f.t.Helper()
	load, sum, all := f.load(), 0, 0
	for name, weight := range weights {
		sum, all = sum+load[name], all+weight
	}
	for name, weight := range weights {
		share := float64(sum) * float64(weight) / float64(all)
		if n := float64(load[name]); n < share*0.9-1 || n > share*1.1+1 {
			f.t.Errorf("the nodes run %v; the share of %s is %.1f", load, name, share)
		}
	}
}

// settle waits until n tasks run and none has been started for a while. How long that takes,
// and how many claims are lost, depends on the scheduler: nodes whose copies of the cluster
// differ for a moment may plan differently.
func (f *fleet) settle(n int) {
	f.t.Helper()
	const rounds = 30
	quiet := briefly(2 * time.Minute)
	before := f.starts()
	for range rounds {
		f.allRun(time.Minute, n)
		at := f.starts()
		f.Advance(quiet)
		if f.moves(at) == 0 && len(f.holders()) == n {
			f.t.Logf("at rest after %d starts; %d of %d claims were lost", f.moves(before), f.claimsRefused(), f.asked.Load())
			return
		}
	}
	f.t.Fatalf("not at rest within %v", rounds*quiet)
}
