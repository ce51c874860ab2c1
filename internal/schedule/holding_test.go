package schedule

import (
	"fmt"
	"testing"

	"github.com/windlass-go/windlass/placement"
)

func TestFleet_TheViewListsThisNodeFirstAndCountsTasksOfDrainingNodesAsLeaving(t *testing.T) {
	f := newTestFleet(peer("a"), peer("b", draining))
	c := &placement.Class{Type: "t", Weight: 1}
	open := map[*placement.Class]int{c: 3}
	f.Hold("a", c, 2)
	f.Hold("b", c, 4)
	v := f.View(placement.Node{Name: "self"}, open, nil)
	if len(v.Nodes) != 3 || v.Nodes[0].Name != "self" || v.Nodes[1].Name != "a" || v.Nodes[2].Closed == "" {
		t.Errorf("nodes %+v", v.Nodes)
	}
	if v.Leaving[c] != 4 || len(v.Leaving) != 1 || v.Open[c] != 3 || v.Held.Of("a").Tasks != 2 {
		t.Errorf("leaving %v, open %v, held by a %+v", v.Leaving, v.Open, v.Held.Of("a"))
	}
	v.Nodes[0].Closed = "for this plan"
	if f.Nodes(placement.Node{Name: "self"})[0].Closed != "" {
		t.Error("a change of one view is in the next")
	}
	if f.Recount(); f.HeldBy("a").Tasks != 0 {
		t.Error("Recount keeps an old count")
	}
}

func TestFleet_LimitsOfThisNodeDoNotCountTasksThatSleep(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		held, active, claiming int
		want                   int // the limit for the planner
	}{
		{"empty", 0, 0, 0, 3},
		{"all run", 2, 2, 0, 3},
		{"full", 3, 3, 0, 3},
		{"two sleep", 3, 1, 0, 5},
		{"one claim in flight, which counts as held", 1, 0, 1, 3},
		{"one is being stopped, which does not", 0, 1, 0, 2},
		{"more than the limit, which was higher before a restart", 5, 5, 0, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := NewFleet(Config{Name: "self", TTL: ttl, FailoverRate: 1, Limits: map[string]int{"t": 3}})
			c := &placement.Class{Type: "t", Weight: 1}
			f.Hold("self", c, tt.held)
			f.Active("t", tt.active)
			f.Claiming("t", tt.claiming)
			self := placement.Node{Name: "self", Limits: map[string]int{"t": 3}}
			if got := f.Nodes(self)[0].Limits; got["t"] != tt.want || self.Limits["t"] != 3 {
				t.Errorf("limits %v, want %d", got, tt.want)
			}
			if got, want := f.MayStart("t"), tt.active < 3; got != want {
				t.Errorf("may start one: %v", got)
			}
			if got, want := f.MayClaim("t"), tt.active+tt.claiming < 3; got != want {
				t.Errorf("may claim one: %v", got)
			}
			if !f.MayStart("other") || !f.MayClaim("other") || f.Limited("other") || !f.Limited("t") {
				t.Error("a type without a limit has one, or the other way round")
			}
		})
	}
}

func TestFleet_TheAnyTypeLimitAppliesToEachType(t *testing.T) {
	f := NewFleet(Config{Name: "self", TTL: ttl, FailoverRate: 1, Limits: map[string]int{placement.AnyType: 1, "b": 2}})
	f.Active("a", 1)
	f.Active("b", 1)
	for taskType, want := range map[string]bool{"a": false, "b": true, "c": true} {
		if f.MayClaim(taskType) != want {
			t.Errorf("may claim one of type %s: %v", taskType, !want)
		}
	}
	if got := f.Nodes(placement.Node{Name: "self"})[0].Limits; got[placement.AnyType] != 1 || got["a"] != 0 || got["b"] != 1 {
		t.Errorf("limits %v", got)
	}
}

func BenchmarkView(b *testing.B) {
	for _, n := range []int{3, 60} {
		b.Run(fmt.Sprint(n, " nodes"), func(b *testing.B) {
			var peers []Peer
			for i := range n - 1 {
				peers = append(peers, peer(fmt.Sprintf("n%03d", i)))
			}
			f, self := newTestFleet(peers...), placement.Node{Name: "self"}
			b.ReportAllocs()
			for b.Loop() {
				f.View(self, nil, nil)
			}
		})
	}
}
