package windlass_test

import (
	"encoding/json"
	"fmt"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
)

// gauge is what a node's Load says, as the test sets it.
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

// The node that should have the tasks is dead, and nobody knows yet.
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
		kv, err := f.line.Get(t.Context(), "/test/nodes/a/info")
		if err != nil {
			t.Fatal(err)
		}
		var info windlass.NodeInfo
		if err := json.Unmarshal(kv.Value, &info); err != nil || info.Load < 0 || info.Load > 100 {
			t.Errorf("load %d, %v", info.Load, err)
		}
	})
}
