package windlass_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/balancer"
)

// refuser takes nothing, and wants to be asked again in an hour.
type refuser struct{ asked *atomic.Int32 }

func (r refuser) CanClaim(v *windlass.View, _ windlass.Candidate) (bool, time.Time) {
	if r.asked != nil {
		r.asked.Add(1)
	}
	return false, v.Now.Add(time.Hour)
}

func (refuser) Balance(*windlass.View) []string { return nil }

// used is a reporter of a resource of which always as much is used.
type used uint64

func (u used) Used() (part, all uint64, err error) { return uint64(u), 100, nil }
func (used) String() string                        { return "percent" }

func resource(u used) windlass.Balancer {
	r, err := balancer.NewResource(u, 80, 90)
	if err != nil {
		panic(err)
	}
	return r
}

// settings of three nodes each.
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

func planner() windlass.Balancer   { return windlass.Planner{} }
func fair() windlass.Balancer      { return &balancer.Fair{} }
func acceptAll() windlass.Balancer { return balancer.AcceptAll{} }
func refuse() windlass.Balancer    { return refuser{} }
func resourceAt(u used) func() windlass.Balancer {
	return func() windlass.Balancer { return resource(u) }
}

// A task that nobody else could run is offered now and then, less and less.
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
		f.nodes(2, balancedBy(func() windlass.Balancer { return refuser{&asked} }))
		f.submit("t", 10, windlass.Spec{})
		f.Advance(50 * time.Minute)
		if n := asked.Load(); n > 40 {
			t.Errorf("asked %d times about 10 tasks on 2 nodes, in less than the hour that was named", n)
		}
	})
}

// One task that nobody can have makes the nodes plan anew whenever something
// changes.
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
