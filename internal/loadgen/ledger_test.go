package loadgen

import (
	"strings"
	"testing"
	"time"
)

// entered is a ledger of 4 tasks and 3 nodes with these lines of each node in it.
func entered(t *testing.T, asOf int64, lines ...[][2]int64) *ledger {
	t.Helper()
	l := &ledger{}
	l.grow(4, 3)
	for node, of := range lines {
		must(t, l.add(node, of))
	}
	must(t, l.take(asOf))
	return l
}

func TestLedger_AMoveIsAStartElsewhereWithItsGap(t *testing.T) {
	l := entered(t, 100, [][2]int64{{0, 10}, {1, 11}, {0, -20}, {2, 30}}, [][2]int64{{0, 27}})
	moved, idle := moves(l.starts())
	if len(moved) != 1 || moved[0].task != 0 || moved[0].node != 1 || moved[0].before != 0 || idle.max() != 7 {
		t.Errorf("moved are %+v, idle %v", moved, idle)
	}
	if l.running[0] != 2 || l.running[1] != 1 || l.running[2] != 0 {
		t.Errorf("running are %v", l.running)
	}
	if at := lastStart(l.starts()).UnixNano(); at != 30 {
		t.Errorf("the last start was at %d", at)
	}
	if first := firstOf(l.starts()); len(first) != 3 {
		t.Errorf("first starts are %+v", first)
	}
}

func TestLedger_WhatNotAllHaveReportedYetWaits(t *testing.T) {
	l := entered(t, 15, [][2]int64{{0, 10}, {0, -20}}, nil)
	if len(l.log) != 1 || l.holder[0] != 0 {
		t.Fatalf("entered are %+v", l.log)
	}
	must(t, l.add(1, [][2]int64{{0, 25}}))
	must(t, l.take(25))
	if len(l.log) != 3 || l.holder[0] != 1 || len(l.pending) != 0 {
		t.Errorf("entered are %+v", l.log)
	}
}

func TestLedger_ATaskThatRunsTwiceIsRefused(t *testing.T) {
	l := &ledger{}
	l.grow(4, 3)
	must(t, l.add(0, [][2]int64{{3, 10}}))
	must(t, l.add(1, [][2]int64{{3, 11}}))
	if err := l.take(100); err == nil || !strings.Contains(err.Error(), "task-00000003 was started on bench-2 while it ran on bench-1") {
		t.Errorf("the error is %v", err)
	}
	l = &ledger{}
	l.grow(4, 3)
	must(t, l.add(0, [][2]int64{{3, -10}}))
	if err := l.take(100); err == nil {
		t.Error("a task was stopped that did not run, without an error")
	}
	if err := l.add(0, [][2]int64{{4, 10}}); err == nil {
		t.Error("a task was started that does not exist, without an error")
	}
}

func TestLedger_TheTasksOfAKilledNodeAreNobodys(t *testing.T) {
	l := entered(t, 100, [][2]int64{{0, 10}, {1, 11}}, [][2]int64{{2, 12}})
	must(t, l.lose(0, time.Unix(0, 40)))
	if l.holder[0] != nobody || l.holder[1] != nobody || l.holder[2] != 1 || l.running[0] != 0 {
		t.Errorf("holders are %v, running %v", l.holder, l.running)
	}
	must(t, l.add(1, [][2]int64{{0, 50}}))
	must(t, l.take(100))
	if moved, idle := moves(l.starts()); len(moved) != 1 || idle.max() != 10 {
		t.Errorf("moved are %+v, idle %v", moved, idle)
	}
}

func TestLedger_EvenSinceIsTheLastTimeThatItBecameEven(t *testing.T) {
	l := entered(t, 100, [][2]int64{{0, 1}, {1, 2}, {2, 3}, {3, 4}})
	l.log = nil
	if _, ok := l.evenSince([]int{0, 1}, 4); ok {
		t.Error("4 tasks to none is even")
	}
	// Even at 14, not at 15, even for good at 20.
	must(t, l.add(0, [][2]int64{{0, -10}, {1, -11}, {2, -15}}))
	must(t, l.add(1, [][2]int64{{0, 12}, {1, 14}, {2, 16}, {2, -17}}))
	must(t, l.add(0, [][2]int64{{2, 20}}))
	must(t, l.take(100))
	if at, ok := l.evenSince([]int{0, 1}, 4); !ok || at.UnixNano() != 20 {
		t.Errorf("it is even (%t) since %d", ok, at.UnixNano())
	}
	if before := l.beforeLog(); before[0] != 4 || before[1] != 0 {
		t.Errorf("before there were %v", before)
	}
}

func TestSince_NothingIsBeforeItsMoment(t *testing.T) {
	l := entered(t, 100, [][2]int64{{0, 10}, {1, 30}})
	s := since(l.starts(), func(int) time.Time { return time.Unix(0, 20) })
	if s.percentile(0) != 0 || s.max() != 10 {
		t.Errorf("the times are %v", s)
	}
}
