package windlass_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/clock"
)

// A node reads its clock in every step of its loop that may claim, and its
// session reads it besides: without tasks some four times a second.
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
