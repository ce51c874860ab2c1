package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/windlasstest"
)

func TestNode_M17_TasksSpreadEvenlyOverNodesThatComeAndGo(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		a, b := c.join("a"), c.join("b")
		c.awaitNodes(2)
		c.Advance(time.Second) // and know of each other
		c.submit(300, windlass.Spec{})
		c.WaitUntil(5*time.Second, "all run", c.allRunning(300))
		if a, b := c.runningOn("a"), c.runningOn("b"); a != 150 || b != 150 {
			t.Errorf("a has %d and b %d", a, b)
		}
		d := c.join("d")
		took := c.WaitUntil(10*time.Second, "even again", func() bool {
			return c.allRunning(300)() && c.runningOn("a") == 100 && c.runningOn("b") == 100 && c.runningOn("d") == 100
		})
		t.Logf("even after %v", took)
		moved := 0
		for _, n := range c.starts() {
			moved += n - 1
		}
		if moved != 100 {
			t.Errorf("%d tasks moved; 100 had to", moved)
		}
		c.must(b.Stop())
		took = c.WaitUntil(5*time.Second, "all run again", c.allRunning(300))
		t.Logf("all run again after %v", took)
		for _, m := range []*windlasstest.Node{a, d} {
			c.must(m.Stop())
		}
	})
}

func TestNode_M17_ANodeThatJoinsWhileAnotherClaimsEverythingGetsItsShare(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.submit(300, windlass.Spec{})
		c.join("a", withFaults(`delay-reply 1s on commit below "/test/tasks/"`))
		c.awaitNodes(1)
		c.Advance(100 * time.Millisecond) // and has asked for everything
		c.join("b")
		took := c.WaitUntil(8*time.Second, "even", func() bool { return c.runningOn("a") == 150 && c.runningOn("b") == 150 })
		t.Logf("even after %v", took)
	})
}

// promptly is shorter than the time after which a node claims in place of another.
const promptly = 200 * time.Millisecond

func TestPlacement_M17_TasksAreSpreadEvenly(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 7, 20} {
		for _, tasks := range []int{1, 5, 100} {
			t.Run(fmt.Sprintf("%d tasks on %d nodes", tasks, nodes), func(t *testing.T) {
				spreadEvenly(t, nodes, tasks)
			})
		}
	}
}

func spreadEvenly(t *testing.T, nodes, tasks int) {
	t.Helper()
	inFleet(t, func(t *testing.T, f *fleet) {
		all := f.nodes(nodes)
		f.submit("t", tasks, windlass.Spec{})
		f.allRun(promptly, tasks)
		f.settle(tasks)
		f.even(names(all)...)
		f.still(time.Hour)
	})
}

// Nodes see a large submission in different parts.
func TestPlacement_M17_AThousandTasksAreSpreadEvenly(t *testing.T) { spreadEvenly(t, 3, 1000) }

func TestPlacement_M17_TasksThatComeOneByOneAreSpreadEvenly(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		all := f.nodes(5)
		for i := range 100 {
			f.submit(fmt.Sprint("t", i), 1, windlass.Spec{})
			if i%7 == 0 {
				f.Advance(time.Millisecond)
			}
		}
		f.allRun(promptly, 100)
		f.settle(100)
		f.even(names(all)...)
		f.still(time.Hour)
	})
}

func TestPlacement_M41_NodesHaveTheirShareByWeight(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.node("a", weighing(1))
		f.node("b", weighing(2))
		f.node("c", weighing(3))
		f.Advance(time.Second)
		f.submit("t", 60, windlass.Spec{})
		f.settle(60)
		f.shared(map[string]int{"a": 1, "b": 2, "c": 3})
		f.still(time.Hour)
		before := f.starts()
		f.node("d", weighing(6))
		f.Advance(time.Second)
		f.settle(60)
		f.shared(map[string]int{"a": 1, "b": 2, "c": 3, "d": 6})
		f.fewMoves(before, 30)
		f.still(time.Hour)
	})
}

func TestPlacement_M41_NodesHaveTheirShareOfTheWeightOfTasks(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.nodes(3)
		weights := map[byte]int{'h': 10, 'm': 3, 'l': 1}
		f.submit("h", 5, windlass.Spec{Weight: 10})
		f.submit("m", 9, windlass.Spec{Weight: 3})
		f.submit("l", 40, windlass.Spec{})
		f.settle(54)
		carried := map[string]int{}
		for id, node := range f.holders() {
			carried[node] += weights[id[0]]
		}
		for node, w := range carried {
			if w < 29 || w > 49 { // a third, give or take the heaviest task
				t.Errorf("%s has %d of 117", node, w)
			}
		}
		f.still(time.Hour)
	})
}

func TestPlacement_WhatIsOverCapacityWaitsAndRunsWhenThereIsRoom(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.nodes(2, holding(5))
		f.submit("t", 20, windlass.Spec{})
		f.settle(10)
		f.loaded(map[string]int{"n00": 5, "n01": 5})
		asked := f.asked.Load()
		f.still(time.Hour)
		if n := f.asked.Load() - asked; n > 0 {
			t.Errorf("%d claims without room for them", n)
		}
		f.remove(f.anyOn("n00"))
		f.Advance(time.Second)
		f.settle(10)
		f.loaded(map[string]int{"n00": 5, "n01": 5})
		f.node("x", holding(3))
		f.settle(13)
		f.loaded(map[string]int{"n00": 5, "n01": 5, "x": 3})
		f.node("y")
		f.settle(19)
		f.still(time.Hour)
	})
}

func TestPlacement_HeavyTasksDoNotExceedACapacity(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.nodes(2, holding(10))
		heavy := f.submit("h", 5, windlass.Spec{Weight: 4})
		f.settle(4)
		f.submit("m", 5, windlass.Spec{Weight: 3})
		f.submit("l", 7, windlass.Spec{})
		f.settle(8)
		f.loaded(map[string]int{"n00": 2, "n01": 2}, heavy...)
		f.loaded(map[string]int{"n00": 4, "n01": 4})
		f.still(time.Hour)
	})
}

func TestPlacement_TypesThatFewHandleLeaveTheRestEven(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.node("a", f.handling("x"))
		f.node("b", f.handling("x", "y"))
		f.node("c", f.handling("x", "y", "z"))
		f.Advance(time.Second)
		for _, few := range []struct {
			name  string
			tasks int
		}{{"z", 10}, {"y", 20}, {"x", 30}} { // those that anyone can run even out what those of a few did
			f.submit(few.name, few.tasks, windlass.Spec{Type: few.name})
			f.Advance(time.Second)
		}
		f.settle(60)
		f.even("a", "b", "c")
		f.still(time.Hour)
		before := f.starts()
		f.node("d", f.handling("z"))
		f.Advance(time.Second)
		f.settle(60)
		f.fewMoves(before, 16) // all z to d, and six x to c, which has room then
		f.still(time.Hour)
	})
}
