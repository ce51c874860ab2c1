package windlass_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
)

// atOnce is how long placing takes where nobody waits for anybody, and soon is
// within the first step of rank: nodes that saw a large submission in different
// parts may have to plan anew.
const (
	atOnce = 5 * time.Millisecond
	soon   = 200 * time.Millisecond
)

// placed fails unless most of n tasks run at once and all of them soon, and few
// claims were lost.
func (f *fleet) placed(n int) {
	f.t.Helper()
	f.Advance(atOnce)
	if running := len(f.holders()); running < n-n/5 {
		f.t.Errorf("%d of %d run at once", running, n)
	}
	f.Advance(soon - atOnce)
	if running := len(f.holders()); running != n {
		f.t.Errorf("%d of %d run soon", running, n)
	}
	// Nodes that see tasks in different portions may plan them differently. How
	// different they are is up to the scheduler; with the race detector four in ten
	// were seen, of tasks that come one by one.
	most := 2 + n/4
	if raceDetector {
		most = 2 + n/2
	}
	if raced := int(f.raced.Load()); raced > most {
		f.t.Errorf("%d of %d claims were lost", raced, f.asked.Load())
	}
}

func TestPlacement_M17_TasksAreSpreadEvenlyAtOnceWithoutRaces(t *testing.T) {
	for _, nodes := range []int{1, 2, 3, 7, 20} {
		for _, tasks := range []int{1, 5, 100, 400} {
			t.Run(fmt.Sprintf("%d tasks on %d nodes", tasks, nodes), func(t *testing.T) {
				inFleet(t, func(t *testing.T, f *fleet) {
					all := f.nodes(nodes)
					f.submit("t", tasks, windlass.Spec{})
					f.placed(tasks)
					f.even(names(all)...)
					f.still(time.Hour)
				})
			})
		}
	}
}

// Nodes see a large submission in parts, and not the same ones.
func TestPlacement_M17_AThousandTasksAreSpreadEvenlyAtOnce(t *testing.T) {
	for range 5 {
		inFleet(t, func(t *testing.T, f *fleet) {
			all := f.nodes(3)
			f.submit("t", 1000, windlass.Spec{})
			f.placed(1000)
			f.even(names(all)...)
			f.still(time.Hour)
		})
	}
}

func TestPlacement_M17_TasksThatComeOneByOneAreSpreadEvenlyAtOnce(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		all := f.nodes(5)
		for i := range 100 {
			f.submit(fmt.Sprint("t", i), 1, windlass.Spec{})
			if i%7 == 0 {
				f.Advance(time.Millisecond)
			}
		}
		f.placed(100)
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
		f.placed(60)
		f.loaded(map[string]int{"a": 10, "b": 20, "c": 30})
		f.still(time.Hour)
		before := f.starts()
		f.node("d", weighing(6))
		f.Advance(time.Second)
		f.loaded(map[string]int{"a": 5, "b": 10, "c": 15, "d": 30})
		if n := f.moves(before); n != 30 {
			t.Errorf("%d moves, and 30 are needed", n)
		}
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
		f.placed(54)
		carried := map[string]int{}
		for id, node := range f.holders() {
			carried[node] += weights[id[0]]
		}
		for node, w := range carried {
			if w != 39 {
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
		f.Advance(atOnce)
		f.loaded(map[string]int{"n00": 5, "n01": 5})
		asked := f.asked.Load()
		f.still(time.Hour)
		if n := f.asked.Load() - asked; n > 0 {
			t.Errorf("%d claims without room for them", n)
		}
		for id, node := range f.holders() { // one is deleted on n00
			if node == "n00" {
				if err := f.Client().Delete(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				break
			}
		}
		f.Advance(50 * time.Millisecond)
		f.loaded(map[string]int{"n00": 5, "n01": 5})
		f.node("x", holding(3))
		f.Advance(50 * time.Millisecond)
		f.loaded(map[string]int{"n00": 5, "n01": 5, "x": 3})
		f.node("y")
		f.Advance(50 * time.Millisecond)
		if n := len(f.holders()); n != 19 {
			t.Errorf("%d run: %v", n, f.load())
		}
		f.Advance(time.Minute)
		f.still(time.Hour)
	})
}

func TestPlacement_HeavyTasksDoNotExceedACapacity(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.nodes(2, holding(10))
		heavy := f.submit("h", 5, windlass.Spec{Weight: 4})
		f.Advance(atOnce)
		f.submit("m", 5, windlass.Spec{Weight: 3})
		f.submit("l", 7, windlass.Spec{})
		f.Advance(50 * time.Millisecond)
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
		f.placed(60)
		f.loaded(map[string]int{"a": 20, "b": 20, "c": 20})
		f.still(time.Hour)
		before := f.starts()
		f.node("d", f.handling("z"))
		f.Advance(time.Minute)
		if n := f.moves(before); n > 16 { // all z to d, and six x to c, which has room then
			t.Errorf("%d moves, and 16 are needed: %v", n, f.load())
		}
		f.still(time.Hour)
	})
}
