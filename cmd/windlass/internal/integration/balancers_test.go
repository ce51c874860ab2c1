package integration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/balancer"
	"github.com/windlass-go/windlass/windlasstest"
)

var withFair = balancedBy(fair)

func TestBalancer_ANodeThatOnlyPullsIsNoReasonToMoveTasks(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("a", withFair)
		c.join("b", withFair)
		c.Advance(time.Second)
		c.submit(30, windlass.Spec{Type: "h"})
		c.Advance(10 * time.Minute)
		before := c.starts()
		c.join("c", pulling("t"))
		c.Advance(10 * time.Minute)
		if n := c.moves(before); n != 0 {
			t.Errorf("%d starts after a node came that runs none of the tasks", n)
		}
	})
}

func TestBalancer_WhatIsDequeuedIsNotMoved(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		ctx := t.Context()
		p := c.join("p", withFair, alsoPulling("t"))
		c.Advance(time.Second)
		c.submit(20, windlass.Spec{Type: "h"})
		c.Advance(time.Minute)
		var all []*windlass.Dequeued
		for i := range 5 {
			c.job(fmt.Sprintf("%d_t", i))
			d := c.dequeue(p, "t")
			all = append(all, d)
		}
		c.join("q", withFair)
		c.Advance(time.Minute)
		for _, d := range all {
			if d.Context().Err() != nil {
				t.Errorf("%s was taken from its caller: %v", d.ID(), context.Cause(d.Context()))
			}
			_ = d.Release(ctx)
		}
	})
}

// mayClaim is a balancer that says whether a node may claim a task, and if not when to ask
// again. It moves nothing.
type mayClaim func(v *windlass.View, c windlass.Candidate) (bool, time.Time)

func (m mayClaim) CanClaim(v *windlass.View, c windlass.Candidate) (bool, time.Time) { return m(v, c) }

func (mayClaim) Balance(*windlass.View) []string { return nil }

func claimingIf(may mayClaim) func(*windlass.Config) {
	return balancedBy(func() windlass.Balancer { return may })
}

// claimNothing wants to be asked again in an hour.
func claimNothing(v *windlass.View, _ windlass.Candidate) (bool, time.Time) {
	return false, v.Now.Add(time.Hour)
}

// claimOneAtATime claims one task, and names an hour for the others.
func claimOneAtATime(v *windlass.View, _ windlass.Candidate) (bool, time.Time) {
	return v.Self.Tasks == 0, v.Now.Add(time.Hour)
}

func TestBalancer_M35_ARejectedTaskIsReconsideredAtTheTimeItNamedInTimeOrder(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		now := time.Now()
		until := map[string]time.Time{
			"task-000": now.Add(3 * time.Minute), "task-001": now.Add(time.Minute), "task-002": now.Add(2 * time.Minute),
		}
		asked := map[string]int{}
		var order []string
		c.join("n", claimingIf(func(v *windlass.View, task windlass.Candidate) (bool, time.Time) {
			id := task.Task.ID()
			asked[id]++
			return !v.Now.Before(until[id]), until[id]
		}), running(func(_ context.Context, claim *windlass.Claim) error {
			order = append(order, claim.ID())
			if late := time.Since(until[claim.ID()]); late < 0 || late > time.Second {
				t.Errorf("%s ran %v after its time", claim.ID(), late)
			}
			return nil
		}))
		c.submit(3, windlass.Spec{})
		c.Advance(4 * time.Minute)
		if !slices.Equal(order, []string{"task-001", "task-002", "task-000"}) {
			t.Errorf("order %q", order)
		}
		for id, n := range asked {
			if n > 4 {
				t.Errorf("the balancer was asked about %s %d times", id, n)
			}
		}
	})
}

// supplied are the balancers of package balancer and the default.
var supplied = map[string]func() windlass.Balancer{
	"default": func() windlass.Balancer { return nil }, "fair": fair, "all": acceptAll,
}

func TestBalancer_M43_TheOnlyTaskOfAClusterNeverBounces(t *testing.T) {
	for name, balancer := range supplied {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				with := balancedBy(balancer)
				nodes := []*windlasstest.Node{c.join("a", with), c.join("b", with), c.join("c", with)}
				c.submit(1, windlass.Spec{})
				c.WaitUntil(5*time.Second, "it runs", c.allRunning(1))
				for _, n := range nodes {
					c.send(n.Name(), "balance", "")
				}
				c.Advance(30 * time.Minute)
				if n := c.startsOf("task-000"); n != 1 {
					t.Errorf("it was started %d times", n)
				}
				for _, n := range nodes {
					n.Stop()
				}
			})
		})
	}
}

func TestBalancer_M40_M41_EachSuppliedOneEndsWithEverythingRunningAndStaysThere(t *testing.T) {
	for name, balancer := range supplied {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(t *testing.T, c *cluster) {
				with := balancedBy(balancer)
				var nodes []*windlasstest.Node
				for _, n := range []string{"a", "b", "c", "d"} {
					nodes = append(nodes, c.join(n, with))
					c.submitWithPrefix(n, 25)
					c.Advance(3 * time.Second)
				}
				c.WaitUntil(10*time.Second, "all run", c.allRunning(100))
				c.Advance(time.Minute)
				before := c.starts()
				c.Advance(time.Hour)
				if n := c.moves(before); n != 0 {
					t.Errorf("%d tasks moved although nothing changed", n)
				}
				for _, n := range nodes {
					if got := c.runningOn(n.Name()); name != "all" && (got < 20 || got > 30) {
						t.Errorf("%s has %d of 100", n.Name(), got)
					}
				}
				for _, n := range nodes {
					n.Stop()
				}
			})
		})
	}
}

// submitWithPrefix submits n tasks with a prefix.
func (c *cluster) submitWithPrefix(prefix string, n int) {
	c.t.Helper()
	for i := range n {
		c.Submit(windlass.Submission{ID: prefix + "-" + strings.Repeat("i", i+1)})
	}
}

// used reports a resource of which so many percent are always in use.
type used uint64

func (u used) Used() (part, all uint64, err error) { return uint64(u), 100, nil }

func (used) String() string { return "percent" }

// balancers are combinations for three nodes.
var balancers = []struct {
	name string
	of   [3]func() windlass.Balancer
}{
	{"planner", [3]func() windlass.Balancer{planner, planner, planner}},
	{"fair", [3]func() windlass.Balancer{fair, fair, fair}},
	{"accept all", [3]func() windlass.Balancer{acceptAll, acceptAll, acceptAll}},
	{"mixed", [3]func() windlass.Balancer{planner, fair, acceptAll}},
	{"resource", [3]func() windlass.Balancer{resourceAt(10), resourceAt(20), resourceAt(30)}},
	{"one that refuses", [3]func() windlass.Balancer{planner, planner, refuse}},
	{"two that refuse", [3]func() windlass.Balancer{planner, refuse, refuse}},
	{"fair and one that refuses", [3]func() windlass.Balancer{fair, fair, refuse}},
	{"resource above the claim limit", [3]func() windlass.Balancer{resourceAt(10), resourceAt(20), resourceAt(85)}},
	{"resource above the release limit", [3]func() windlass.Balancer{resourceAt(10), resourceAt(20), resourceAt(95)}},
	{"planner and resource above the limit", [3]func() windlass.Balancer{planner, planner, resourceAt(95)}},
}

func planner() windlass.Balancer { return windlass.Planner{} }

func fair() windlass.Balancer { return &balancer.Fair{} }

func acceptAll() windlass.Balancer { return balancer.AcceptAll{} }

func refuse() windlass.Balancer { return mayClaim(claimNothing) }

func resourceAt(u used) func() windlass.Balancer {
	return func() windlass.Balancer {
		r, err := balancer.NewResource(u, 80, 90)
		if err != nil {
			panic(err)
		}
		return r
	}
}

// A task that no other node accepts is still offered, at longer and longer intervals.
func TestBalancer_M43_EveryClusterReachesAFixedPointAndStaysThere(t *testing.T) {
	settling, staying := 4*time.Hour, 2*time.Hour
	if raceDetector {
		// It takes ten times as long, and what it looks for is there at once. Offers come
		// at ever longer intervals for hours: the fixed point is for the run without it.
		settling, staying = 20*time.Minute, 0
	}
	for _, tt := range balancers {
		for _, joins := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the third joins later %v", tt.name, joins), func(t *testing.T) {
				inFleet(t, func(t *testing.T, f *fleet) {
					f.node("a", balancedBy(tt.of[0]))
					f.node("b", balancedBy(tt.of[1]))
					if !joins {
						f.node("c", balancedBy(tt.of[2]))
					}
					f.Advance(time.Second)
					f.submit("t", 30, windlass.Spec{})
					f.Advance(20 * time.Second)
					f.node("x", f.handling("other"))
					if joins {
						f.node("c", balancedBy(tt.of[2]))
					}
					f.Advance(settling)
					f.allRun(time.Minute, 30)
					f.still(staying)
				})
			})
		}
	}
}

func TestBalancer_M40_WhatOneNodesBalancerRefusesOthersTakeSoon(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.node("a")
		f.node("b")
		f.node("c", balancedBy(refuse))
		f.Advance(time.Second)
		f.submit("t", 30, windlass.Spec{})
		f.settle(30)
		f.even("a", "b")
	})
}

func TestBalancer_M35_ATaskThatIsRejectedIsReconsideredAtTheTimeThatWasNamed(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		var asked atomic.Int32
		f.nodes(2, claimingIf(func(v *windlass.View, c windlass.Candidate) (bool, time.Time) {
			asked.Add(1)
			return claimNothing(v, c)
		}))
		f.submit("t", 10, windlass.Spec{})
		f.Advance(50 * time.Minute)
		if n := asked.Load(); n > 40 {
			t.Errorf("asked %d times about 10 tasks on 2 nodes, in less than the hour that was named", n)
		}
	})
}

// A task that no node can run makes the nodes plan again at every change.
func TestBalancer_M40_WhatIsRefusedIsTakenWhileTasksGoOnComing(t *testing.T) {
	for _, unplaceable := range []int{0, 1} {
		t.Run(fmt.Sprint(unplaceable, " tasks without a node"), func(t *testing.T) {
			inFleet(t, func(t *testing.T, f *fleet) {
				f.node("a", balancedBy(refuse))
				f.node("b")
				f.Advance(time.Second)
				f.submit("pinned", unplaceable, windlass.Spec{Node: "nobody"})
				for i := range 100 {
					f.submit(fmt.Sprint("t", i), 1, windlass.Spec{})
					f.Advance(100 * time.Millisecond)
				}
				f.settle(100)
			})
		})
	}
}
