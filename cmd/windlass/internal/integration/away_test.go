package integration_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/windlasstest"
)

// Whoever starts while nodes are away leaves to them what is kept for them.
func TestPlacement_M17_NodesThatAreAwayTogetherGetTheirOwnTasksBack(t *testing.T) {
	for _, tt := range []struct {
		nodes, away, tasks int
		each               time.Duration
	}{{2, 2, 6, 20 * time.Second}, {4, 2, 200, 20 * time.Second}, {4, 2, 200, 15 * time.Second}, {5, 5, 100, 10 * time.Second}} {
		for how, end := range endings {
			if how == "killed" && tt.away == tt.nodes {
				continue // nobody is left who could say what they held
			}
			t.Run(fmt.Sprintf("%d of %d %s, each after %v", tt.away, tt.nodes, how, tt.each), func(t *testing.T) {
				in := inFleet
				if tt.tasks < 10 {
					in = inFleets
				}
				in(t, func(t *testing.T, f *fleet) {
					all := f.nodes(tt.nodes, returning(time.Minute))
					f.submit("t", tt.tasks, windlass.Spec{})
					f.settle(tt.tasks)
					before, starts := f.holders(), f.starts()
					for _, n := range all[:tt.away] {
						end(n)
					}
					for _, n := range all[:tt.away] {
						f.Advance(tt.each)
						n.Restart()
					}
					f.settle(tt.tasks)
					f.unmoved(before)
					if n, need := f.moves(starts), tt.tasks*tt.away/tt.nodes; n != need {
						t.Errorf("%d starts, and %d were needed", n, need)
					}
					f.still(time.Hour)
				})
			})
		}
	}
}

func TestPlacement_M17_ANodeThatJoinsLeavesAloneWhatIsKeptForAnother(t *testing.T) {
	inEndings(t, func(t *testing.T, f *fleet, end func(*windlasstest.Node)) {
		const tasks = 120
		all := f.nodes(3, returning(time.Minute))
		f.submit("t", tasks, windlass.Spec{})
		f.settle(tasks)
		kept, starts := f.load()["n00"], f.starts()
		end(all[0])
		f.Advance(20 * time.Second)
		f.node("n03")
		f.Advance(20 * time.Second)
		if n := len(f.holders()); n != tasks-kept {
			t.Errorf("%d of %d tasks run while %d are kept", n, tasks, kept)
		}
		// The new node gets of each other what is above its share among all four.
		if n := f.moves(starts); n > kept/2+2 {
			t.Errorf("%d tasks moved before the node was back", n)
		}
		all[0].Restart()
		f.settle(tasks)
		f.even("n00", "n01", "n02", "n03")
		if n, need := f.moves(starts), kept+tasks/4-kept/4; n > need+need/10 {
			t.Errorf("%d starts, and %d were needed", n, need)
		}
		f.still(time.Hour)
	})
}

// What is kept is free again when the time is up, or a cordon says that the node gets nothing.
func TestPlacement_O01_WhatIsKeptForANodeIsFreeOnceItIsCordoned(t *testing.T) {
	inEndings(t, func(t *testing.T, f *fleet, end func(*windlasstest.Node)) {
		all := f.nodes(3, returning(10*time.Minute))
		f.submit("t", 30, windlass.Spec{})
		f.settle(30)
		end(all[0])
		f.Advance(time.Minute)
		f.node("n03")
		f.Advance(time.Minute)
		if n := len(f.holders()); n != 20 {
			t.Errorf("%d tasks run, 10 of 30 are kept", n)
		}
		_, err := operate.New(f.client).Cordon(t.Context(), "n00", "")
		f.must(err)
		f.settle(30)
		f.even("n01", "n02", "n03")
	})
}

func TestPlacement_O01_ACordonedNodeThatStopsKeepsNothing(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		all := f.nodes(3, returning(10*time.Minute))
		f.submit("t", 30, windlass.Spec{})
		f.settle(30)
		_, err := operate.New(f.client).Cordon(t.Context(), "n00", "")
		f.must(err)
		f.Advance(time.Second)
		all[0].Stop()
		f.Advance(10 * time.Second)
		f.allRun(time.Minute, 30)
		f.even("n01", "n02")
	})
}

func TestPlacement_M17_WhatIsKeptIsFreeWhenTheTimeIsUpAlsoForWhoStartedMeanwhile(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		all := f.nodes(2, returning(time.Minute))
		f.submit("t", 20, windlass.Spec{})
		f.settle(20)
		for _, n := range all {
			n.Stop()
		}
		f.Advance(30 * time.Second)
		f.node("n02")
		f.Advance(20 * time.Second)
		if n := len(f.holders()); n != 0 {
			t.Errorf("%d tasks run that are kept for others", n)
		}
		f.allRun(time.Minute, 20)
		f.even("n02")
	})
}

// nodesByName returns the nodes as a client lists them.
func (f *fleet) nodesByName() map[string]windlass.NodeStatus {
	f.t.Helper()
	nodes, err := f.client.Nodes(f.t.Context())
	f.must(err)
	byName := map[string]windlass.NodeStatus{}
	for _, n := range nodes {
		byName[n.Name] = n
	}
	return byName
}

// Whoever looks sees who is away, until when, and what is kept for it.
func TestPlacement_WhatIsKeptForANodeIsTold(t *testing.T) {
	inEndings(t, func(t *testing.T, f *fleet, end func(*windlasstest.Node)) {
		all := f.nodes(3, returning(time.Minute), inZone("a"))
		f.submit("t", 30, windlass.Spec{})
		f.settle(30)
		id := f.anyOn("n00")
		end(all[0])
		f.Advance(20 * time.Second)
		left := time.Until(f.nodesByName()["n00"].AwayUntil)
		if n := f.nodesByName()["n00"]; n.Tasks != 10 || !n.Returning || n.Zone != "a" || left <= 0 || left > time.Minute {
			t.Errorf("listed as %+v, to be back within %v", n, left)
		}
		e, err := inspect.New(f.client).Explain(t.Context(), id)
		f.must(err)
		if !strings.Contains(e.Why, "kept for node n00") || e.Until == nil || time.Until(*e.Until) != left || e.Nodes[0].Node != "n00" || e.Nodes[0].Takes {
			t.Errorf("explained by %q, until %v; %+v", e.Why, e.Until, e.Nodes)
		}
		for joins, want := range map[string]struct {
			moved  int
			change string
			after  int
		}{"": {0, "away", 10}, "n00": {0, "joins", 10}, "n03": {6, "away", 10}} {
			plan, err := inspect.New(f.client).Plan(t.Context(), func(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error) {
				if joins != "" {
					nodes = append(nodes, windlass.NodeInfo{Name: joins, Types: []string{windlass.AnyType}})
				}
				return nodes, nil
			})
			f.must(err)
			if n := plan.Nodes[0]; plan.Moved != want.moved || n.Change != want.change || n.After != want.after || plan.Waiting != 0 {
				t.Errorf("%q joins: %d tasks move, %d wait; %+v", joins, plan.Moved, plan.Waiting, plan.Nodes)
			}
		}
		f.Advance(2 * time.Minute)
		f.allRun(time.Minute, 30)
		if n := f.nodesByName()["n00"]; !time.Now().After(n.AwayUntil) || n.Tasks != 0 {
			t.Errorf("late, it is listed as %+v", n)
		}
		f.Advance(20 * time.Minute)
		if n, listed := f.nodesByName()["n00"]; listed {
			t.Errorf("it is not forgotten: %+v", n)
		}
	})
}

// Nothing is kept of a task that is deleted at the moment at which its node gives it back.
func TestPlacement_M30_ATaskThatIsDeletedWhileItsNodeStopsIsGone(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		calls := 0
		n := f.node("n00", returning(time.Minute), intercept(func(m *interceptor) {
			m.end = func(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
				if calls++; calls == 1 {
					f.must(f.client.Delete(ctx, endings[0].ID))
				}
				if calls > 10 { // or it would go on for ever in no time
					return []coordinator.Ended{{Err: coordinator.ErrFenced}}
				}
				return m.Coordinator.End(ctx, endings)
			}
		}))
		f.submit("t", 1, windlass.Spec{})
		f.allRun(time.Minute, 1)
		n.Stop()
		if calls != 2 {
			t.Errorf("it was given back in %d calls, want one that is refused and one that is not", calls)
		}
		if kvs, _, err := broker.Collect(t.Context(), f.Connect(), "/"+windlasstest.Namespace+"/tasks/"); err != nil || len(kvs) > 0 {
			t.Errorf("%v, %v are left of it", err, kvs)
		}
	})
}
