package integration_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
)

func TestPlacement_LabelsZonesAndPinsAreKept(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.node("a", labelled("disk", "ssd"), inZone("z1"))
		f.node("b", labelled("disk", "hdd"), inZone("z2"))
		f.node("c", inZone("z2"))
		f.Advance(time.Second)
		ssd := f.submit("ssd", 4, windlass.Spec{Require: map[string]string{"disk": "ssd"}})
		zone := f.submit("zone", 8, windlass.Spec{Require: map[string]string{"zone": "z2"}})
		tape := f.submit("tape", 2, windlass.Spec{Require: map[string]string{"disk": "tape"}})
		pinned := f.submit("pinned", 4, windlass.Spec{Node: "d"})
		f.settle(12)
		f.loaded(map[string]int{"a": 4}, ssd...)
		if load := f.load(zone...); load["b"]+load["c"] != 8 {
			t.Errorf("what is to run in z2 runs on %v", load)
		}
		f.loaded(map[string]int{}, append(tape, pinned...)...)
		f.still(time.Hour)
		d := f.node("d", labelled("disk", "tape"))
		f.settle(18)
		f.loaded(map[string]int{"d": 6}, append(tape, pinned...)...)
		f.still(time.Hour)
		d.Stop()
		f.settle(12)
		f.loaded(map[string]int{}, append(tape, pinned...)...)
		f.still(time.Hour)
		d.Restart()
		f.settle(18)
		f.loaded(map[string]int{"d": 6}, append(tape, pinned...)...)
	})
}

// refusing is a balancer that never claims.
type refusing struct{ windlass.Planner }

// CanClaim implements windlass.Balancer.
func (refusing) CanClaim(*windlass.View, windlass.Candidate) (bool, time.Time) {
	return false, time.Time{}
}

func TestPlacement_WhoMayNotRunATaskDoesNotStandInForWhoDoesNotClaimIt(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.node("a", func(c *windlass.Config) { c.Balancer = refusing{} })
		f.node("b")
		f.node("c")
		f.Advance(time.Second)
		pinned := f.submit("pinned", 4, windlass.Spec{Node: "a"})
		f.Advance(10 * time.Minute)
		f.loaded(map[string]int{}, pinned...)
	})
}

func TestPlacement_APreferredLabelIsPreferredAndNotRequired(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.node("a", labelled("disk", "ssd"))
		f.node("b")
		f.Advance(time.Second)
		f.oneByOne("plain", 6, windlass.Spec{})
		prefer := windlass.Spec{Prefer: map[string]string{"disk": "ssd"}}
		f.loaded(map[string]int{"a": 1}, f.submitted("one", prefer)...)
		f.loaded(map[string]int{"b": 1}, f.submitted("two", windlass.Spec{})...)
		f.still(time.Hour)
	})
}

// submitted submits one task and waits until it runs.
func (f *fleet) submitted(name string, spec windlass.Spec) []string {
	f.t.Helper()
	return f.oneByOne(name, 1, spec)
}

// oneByOne submits each task only when all nodes have seen the previous one run, so that they
// plan from the same copy. Of a batch, nodes may see different parts first.
func (f *fleet) oneByOne(name string, n int, spec windlass.Spec) (ids []string) {
	f.t.Helper()
	for i := range n {
		id := fmt.Sprintf("%s-%04d", name, i)
		f.Submit(windlass.Submission{ID: id, Spec: spec})
		f.WaitUntil(time.Minute, id+" runs", func() bool { return f.holders()[id] != "" })
		f.Advance(time.Second)
		ids = append(ids, id)
	}
	return ids
}

// If a node can give away any of its tasks, it keeps those that prefer it.
func TestPlacement_AMoveLeavesTasksWhereTheyPreferToBe(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.node("a", labelled("disk", "ssd"))
		f.Advance(time.Second)
		f.submit("plain", 10, windlass.Spec{})
		fond := f.submit("fond", 10, windlass.Spec{Prefer: map[string]string{"disk": "ssd"}})
		f.settle(20)
		f.node("b")
		f.Advance(time.Second)
		f.settle(20)
		f.even("a", "b")
		f.loaded(map[string]int{"a": 10}, fond...)
	})
}

// spreadOver fails unless the numbers of tasks that a group has in each zone differ by at
// most one.
func (f *fleet) spreadOver(zoneOf map[string]string, groups map[string][]string) {
	f.t.Helper()
	held := f.holders()
	for name, ids := range groups {
		zones := map[string]int{}
		for _, zone := range zoneOf {
			zones[zone] = 0
		}
		for _, id := range ids {
			zones[zoneOf[held[id]]]++
		}
		low, high := len(ids), 0
		for _, n := range zones {
			low, high = min(low, n), max(high, n)
		}
		if high-low > 1 {
			f.t.Errorf("group %s has %v", name, zones)
		}
	}
}

func TestPlacement_GroupsAreSpreadOverZonesAlsoAfterAFailover(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		zoneOf, groups := map[string]string{}, map[string][]string{}
		for i := range 6 {
			name, zone := fmt.Sprint("n", i), fmt.Sprint("z", i%3)
			f.node(name, inZone(zone))
			zoneOf[name] = zone
		}
		f.Advance(time.Second)
		f.oneByOne("plain", 20, windlass.Spec{})
		for g := range 8 {
			name := fmt.Sprint("g", g)
			groups[name] = f.oneByOne(name, 3+g%4, windlass.Spec{Group: name})
		}
		f.oneByOne("more", 20, windlass.Spec{})
		f.settle(76)
		f.spreadOver(zoneOf, groups)
		f.Holder("g0-0000").Kill()
		f.Advance(time.Minute)
		f.settle(76)
		f.spreadOver(zoneOf, groups)
		f.still(time.Hour)
	})
}

func TestPlacement_AGroupIsSpreadOverTheNodesOfAZone(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.nodes(4)
		f.oneByOne("plain", 3, windlass.Spec{})
		group := f.oneByOne("g", 4, windlass.Spec{Group: "g"})
		f.settle(7)
		f.loaded(map[string]int{"n00": 1, "n01": 1, "n02": 1, "n03": 1}, group...)
		f.still(time.Hour)
	})
}

// The zone of the node that joins already has a task of the group.
func TestPlacement_M17_ANodeThatJoinsDoesNotUndoTheSpreadOfAGroup(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.node("a", inZone("z1"))
		f.node("b", inZone("z2"))
		f.Advance(time.Second)
		f.oneByOne("plain", 10, windlass.Spec{})
		group := map[string][]string{"g": f.oneByOne("g", 2, windlass.Spec{Group: "g"})}
		f.settle(12)
		zones := map[string]string{"a": "z1", "b": "z2", "c": "z1"}
		f.spreadOver(zones, group)
		f.node("c", inZone("z1"))
		f.Advance(time.Second)
		f.settle(12)
		f.spreadOver(zones, group)
		f.still(time.Hour)
	})
}

// Each of those who give decides alone, and all give at once.
func TestPlacement_O08_GroupsAreSpreadWhenNodesJoin(t *testing.T) {
	for name, test := range map[string]struct {
		before, joins []string // nodes, each in the zone of its first letter
		groups, each  int
	}{
		"two groups of two get another zone":      {[]string{"a1"}, []string{"b1"}, 2, 2},
		"six groups of two get another zone":      {[]string{"a1"}, []string{"b1"}, 6, 2},
		"two groups of six get a third zone":      {[]string{"a1", "b1"}, []string{"c1"}, 2, 6},
		"ten groups of three, each a zone of its": {[]string{"a1", "b1"}, []string{"c1", "c2"}, 10, 3},
		"another node in each zone":               {[]string{"a1", "b1"}, []string{"a2", "b2"}, 5, 4},
		"nodes join one after the other":          {[]string{"a1"}, []string{"a2", "b1", "b2"}, 4, 4},
	} {
		t.Run(name, func(t *testing.T) {
			in := inFleet
			if test.groups == 2 {
				in = inFleets
			}
			in(t, func(t *testing.T, f *fleet) {
				zones, groups, tasks := map[string]string{}, map[string][]string{}, 0
				join := func(names []string) {
					for _, n := range names {
						zones[n] = n[:1]
						f.node(n, inZone(zones[n]))
						f.Advance(time.Second)
					}
				}
				join(test.before)
				for g := range test.groups {
					name := fmt.Sprint("g", g)
					groups[name] = f.oneByOne(name, test.each, windlass.Spec{Group: name})
					tasks += test.each
				}
				f.settle(tasks)
				f.spreadOver(zones, groups)
				before := f.starts()
				join(test.joins)
				f.Advance(30 * time.Second)
				f.settle(tasks)
				f.spreadOver(zones, groups)
				f.still(time.Hour)
				t.Logf("%d of %d tasks have moved", f.moves(before), tasks)
			})
		})
	}
}

func TestPlan_O08_NamesTheGroupsThatAreNotSpread(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.node("a", inZone("z1"))
		f.Advance(time.Second)
		f.oneByOne("g", 4, windlass.Spec{Group: "g"})
		f.settle(4)
		for _, test := range []struct {
			capacity int
			moved    int
			after    []inspect.Spread
		}{
			{0, 2, []inspect.Spread{}},
			{1, 1, []inspect.Spread{{Group: "g", Nodes: map[string]int{"a": 3, "b": 1}}}},
		} {
			plan, err := inspect.New(f.client).Plan(t.Context(), func(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error) {
				return append(nodes, windlass.NodeInfo{Name: "b", Zone: "z2", Types: []string{windlass.AnyType}, Capacity: test.capacity}), nil
			})
			f.must(err)
			if plan.Moved != test.moved || len(plan.UnspreadBefore) != 0 || !reflect.DeepEqual(plan.UnspreadAfter, test.after) {
				t.Errorf("with a capacity of %d: %+v", test.capacity, plan)
			}
		}
	})
}

// Evenness and spread conflict here. Whichever wins, no task moves after its first placement.
func TestPlacement_M43_AGroupInZonesOfUnequalSizeIsPlacedOnce(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.node("a", inZone("z1"))
		for i := range 5 {
			f.node(fmt.Sprint("b", i), inZone("z2"))
		}
		f.Advance(time.Second)
		f.submit("g", 12, windlass.Spec{Group: "g"})
		f.settle(12)
		f.still(time.Hour)
	})
}
