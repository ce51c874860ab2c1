package integration_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
)

// slowly waits until all tasks run, and fails if the remaining nodes take them over faster
// than their rate allows.
func (f *fleet) slowly(tasks, left, perSecond int) {
	f.t.Helper()
	f.WaitUntil(30*time.Second, "the brake is on", func() bool { return f.braked.Load() >= int32(left) })
	at, start := len(f.holders()), time.Now()
	for len(f.holders()) < tasks {
		f.Advance(time.Second)
		seconds := int(time.Since(start) / time.Second)
		if n := len(f.holders()) - at; n > left*perSecond*(seconds+1) {
			f.t.Errorf("%d nodes took %d tasks over in %ds at %d a second", left, n, seconds, perSecond)
			return
		}
		if seconds > 2*tasks/perSecond {
			f.t.Errorf("not all run after %ds: %d", seconds, len(f.holders()))
			return
		}
	}
}

func TestPlacement_MostNodesThatVanishAreTakenOverSlowly(t *testing.T) {
	for _, c := range []struct{ nodes, vanish int }{{3, 2}, {5, 3}, {8, 5}} {
		t.Run(fmt.Sprintf("%d of %d", c.vanish, c.nodes), func(t *testing.T) {
			inFleet(t, func(t *testing.T, f *fleet) {
				all := f.nodes(c.nodes, failingOver(5))
				f.submit("t", 60*c.nodes, windlass.Spec{})
				f.Advance(30 * time.Second) // what was claimed just before would be started one by one
				for _, n := range all[:c.vanish] {
					n.Kill()
				}
				left := c.nodes - c.vanish
				f.slowly(60*c.nodes, left, 5)
				if n := f.braked.Load(); n != int32(left) {
					t.Errorf("%d nodes, and Braked was told %d times", left, n)
				}
				f.Advance(time.Minute)
				for name, n := range f.load() {
					if fair := 60 * c.nodes / left; n < fair*9/10-1 || n > fair*11/10+1 { // what drift tolerates
						t.Errorf("node %s runs %d; its share is %d", name, n, fair)
					}
				}
				f.still(time.Hour)
			})
		})
	}
}

// Nodes that plan again for another reason do not release the brake.
func TestPlacement_TheBrakeHoldsWhenTheClusterChangesMeanwhile(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		all := f.nodes(5, failingOver(5))
		f.submit("t", 150, windlass.Spec{})
		f.Advance(30 * time.Second)
		for _, n := range all[1:] {
			n.Kill()
		}
		f.WaitUntil(30*time.Second, "the brake is on", func() bool { return f.braked.Load() > 0 })
		at := len(f.holders())
		f.Advance(2 * time.Second)
		f.node("other", f.handling("other"))
		f.Advance(2 * time.Second)
		if n := len(f.holders()); n > at+5*5 {
			t.Errorf("%d run after 4 s at 5 a second", n)
		}
	})
}

func TestPlacement_OneOfThreeNodesThatVanishesIsTakenOverAtOnce(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		all := f.nodes(3, failingOver(1))
		f.submit("t", 90, windlass.Spec{})
		f.Advance(30 * time.Second)
		all[0].Kill()
		f.Advance(16 * time.Second)
		f.settle(90)
		f.even("n01", "n02")
		if f.braked.Load() > 0 {
			t.Error("the brake was on")
		}
	})
}

func TestPlacement_NodesThatAreStoppedPutNoBrakeOn(t *testing.T) {
	for _, tasks := range []int{0, 1, 90} {
		for _, within := range []time.Duration{0, time.Minute} {
			t.Run(fmt.Sprintf("%d tasks, return within %v", tasks, within), func(t *testing.T) {
				inFleet(t, func(t *testing.T, f *fleet) {
					all := f.nodes(5, failingOver(1), returning(within))
					f.submit("t", tasks, windlass.Spec{})
					f.Advance(30 * time.Second)
					for _, n := range all[:3] {
						n.Stop()
					}
					f.Advance(2 * time.Minute)
					f.settle(tasks)
					if n := f.braked.Load(); n > 0 {
						t.Errorf("the brake was on, on %d nodes", n)
					}
				})
			})
		}
	}
}

// A node that is back under its name no longer counts as gone.
func TestPlacement_TheBrakeGoesOffWhenTheNodesAreBack(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		all := f.nodes(3, failingOver(1))
		f.submit("t", 90, windlass.Spec{})
		f.Advance(30 * time.Second)
		all[0].Kill()
		all[1].Kill()
		f.Advance(20 * time.Second)
		all[0].Restart()
		all[1].Restart()
		f.Advance(5 * time.Second)
		f.settle(90)
		f.even("n00", "n01", "n02")
		f.still(time.Hour)
	})
}

// The brake works a second time, after a quiet hour.
func TestPlacement_TheBrakeGoesOnASecondTime(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		all := f.nodes(5, failingOver(5))
		f.submit("t", 150, windlass.Spec{})
		f.Advance(30 * time.Second)
		for times := range int32(2) {
			for _, n := range all[:3] {
				n.Kill()
			}
			f.slowly(150, 2, 5)
			if n := f.braked.Load(); n != 2*(times+1) {
				t.Errorf("2 nodes are left for the %d. time, and Braked was told %d times in all", times+1, n)
			}
			for i, n := range all[:3] {
				all[i] = n.Restart()
			}
			f.Advance(time.Hour)
			f.allRun(time.Second, 150)
		}
	})
}

func TestFailover_TheLogSaysWhoTookOverWhatFromWhom(t *testing.T) {
	inMemory(t, func(t *testing.T, c *cluster) {
		var lines bytes.Buffer
		dies := c.join("n1", running(untilStopped))
		survivor := c.join("n2", running(untilStopped), func(cfg *windlass.Config) {
			cfg.Events = events.Log(slog.New(slog.NewTextHandler(&lines, nil)))
		})
		c.submit(20, windlass.Spec{})
		c.WaitUntil(time.Minute, "all run", c.allRunning(20))
		c.Advance(30 * time.Second) // nothing moves any more, and nothing is suspected
		held := len(survivor.Tasks())
		lines.Reset()
		dies.Kill()
		c.WaitUntil(2*time.Minute, "they run on the other", func() bool { return len(survivor.Tasks()) == 20 })
		c.Advance(5 * time.Second)
		told := regexp.MustCompile(`level=INFO msg="took over tasks" previous=n1 tasks=(\d+) first="?\[task-\d+( task-\d+){0,4}\]`)
		sum := 0
		for _, m := range told.FindAllStringSubmatch(lines.String(), -1) {
			n, _ := strconv.Atoi(m[1])
			sum += n
		}
		if sum != 20-held || strings.Count(lines.String(), "took over") > 3 {
			t.Errorf("%d of %d tasks that were taken over are in the log:\n%s", sum, 20-held, lines.String())
		}
	})
}
