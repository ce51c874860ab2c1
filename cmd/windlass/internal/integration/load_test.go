package integration_test

import (
	"encoding/json"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/clock"
)

// gauge is the load that a node reports.
type gauge struct{ bits atomic.Uint64 }

func (g *gauge) set(load float64) { g.bits.Store(math.Float64bits(load)) }

func loadedAt(g *gauge) func(*windlass.Config) {
	return func(c *windlass.Config) { c.Load = func() float64 { return math.Float64frombits(g.bits.Load()) } }
}

func TestPlacement_AnOverloadedNodeKeepsItsTasksAndTakesNoneUntilItIsRelieved(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		var load gauge
		load.set(0.5)
		f.node("a", loadedAt(&load))
		f.node("b")
		f.Advance(time.Second)
		f.submit("t", 10, windlass.Spec{})
		f.settle(10)
		for i, step := range []struct {
			load  float64
			takes bool
		}{{0.89, true}, {0.90, false}, {0.85, false}, {0.80, false}, {0.79, true}, {0.85, true}, {1.5, false}, {-1, true}} {
			load.set(step.load)
			f.settle(10 + 6*i)
			kept := f.load()["a"]
			f.submit(fmt.Sprint("s", i), 6, windlass.Spec{})
			f.settle(10 + 6*(i+1))
			if n := f.load()["a"]; (n > kept) != step.takes || n < kept {
				t.Errorf("at a load of %v it had %d and has %d", step.load, kept, n)
			}
		}
		f.even("a", "b")
		f.still(time.Hour)
	})
}

// The node that should get the tasks is dead, which the other does not know yet.
func TestPlacement_AnOverloadedNodeDoesNotTakeWhatOthersLeave(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		var load gauge
		load.set(0.95)
		a := f.node("a")
		f.node("b", loadedAt(&load))
		f.Advance(time.Second)
		a.Kill()
		f.submit("t", 10, windlass.Spec{})
		f.Advance(time.Minute)
		f.loaded(map[string]int{})
		load.set(0.5)
		f.settle(10)
		f.loaded(map[string]int{"b": 10})
	})
}

func TestPlacement_ALoadThatIsNoNumberIsShownAsNone(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		var load gauge
		load.set(math.NaN())
		f.node("a", loadedAt(&load))
		f.Advance(time.Minute)
		kv := f.get("/test/nodes/a/info")
		var info windlass.NodeInfo
		if err := json.Unmarshal(kv.Value, &info); err != nil || info.Load < 0 || info.Load > 100 {
			t.Errorf("load %d, %v", info.Load, err)
		}
	})
}

// A node reads its clock in every step that may claim, and its session reads it as well: about
// four times a second without tasks.
func TestNode_M35_AnIdleLoopDoesNotSpinWhateverItWaitsFor(t *testing.T) {
	const quiet = 5 // readings a second
	for name, setUp := range map[string]func(f *fleet, count func(*windlass.Config)){
		"nothing": func(f *fleet, count func(*windlass.Config)) { f.nodes(3, count) },
		"tasks": func(f *fleet, count func(*windlass.Config)) {
			f.nodes(3, count)
			f.submit("t", 20, windlass.Spec{})
		},
		"an absent node": func(f *fleet, count func(*windlass.Config)) {
			f.nodes(3, count)
			f.submit("t", 20, windlass.Spec{Node: "absent"})
		},
		"room": func(f *fleet, count func(*windlass.Config)) {
			f.nodes(3, count, holding(2))
			f.submit("t", 20, windlass.Spec{})
		},
		"balancers that refuse": func(f *fleet, count func(*windlass.Config)) {
			f.nodes(3, count, balancedBy(refuse))
			f.submit("t", 20, windlass.Spec{})
		},
		"a handler for the type": func(f *fleet, count func(*windlass.Config)) {
			f.nodes(3, count, f.handling("a"))
			f.submit("t", 20, windlass.Spec{Type: "b"})
		},
		"relief": func(f *fleet, count func(*windlass.Config)) {
			load := new(gauge)
			load.set(1)
			f.nodes(3, count, loadedAt(load))
			f.Advance(10 * time.Second)
			f.submit("t", 20, windlass.Spec{})
		},
		"a node to return": func(f *fleet, count func(*windlass.Config)) {
			all := f.nodes(3, count, returning(10*time.Minute))
			f.submit("t", 20, windlass.Spec{})
			f.Advance(time.Second)
			all[0].Stop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(_ *testing.T, f *fleet) {
				var read atomic.Int64
				setUp(f, func(c *windlass.Config) {
					c.Clock = func() (boot, day time.Duration) { read.Add(1); return clock.Process() }
				})
				f.Advance(time.Minute)
				read.Store(0)
				const while = 8 * time.Minute
				f.Advance(while)
				if n := read.Load(); n > 3*quiet*int64(while/time.Second) {
					t.Errorf("three nodes read the clock %d times in %v", n, while)
				}
			})
		})
	}
}
