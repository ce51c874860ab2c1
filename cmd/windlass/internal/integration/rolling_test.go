package integration_test

import (
	"context"
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/windlasstest"
)

// rolling restarts every node in turn.
func (f *fleet) rolling(returnWithin time.Duration) (ids []string) {
	f.t.Helper()
	tasks := 10 * *fleetFlag
	all := f.nodes(*fleetFlag, returning(returnWithin))
	ids = f.submit("t", tasks, windlass.Spec{})
	f.Advance(2 * time.Second)
	for i, n := range all {
		f.must(n.Stop())
		f.Advance(3 * time.Second)
		all[i] = n.Restart()
		f.Advance(2 * time.Second)
	}
	f.allRun(time.Minute, tasks)
	f.even(names(all)...)
	return ids
}

// moreThan fails if tasks moved more often than their nodes were restarted, plus spare.
func (f *fleet) moreThan(spare int, ids []string) {
	f.t.Helper()
	count, worst, which := 0, 0, ""
	for _, id := range ids {
		moved, must := -1, 0
		for _, r := range f.Runs(id) {
			moved++
			if errors.Is(r.Cause, windlass.ErrDraining) {
				must++
			}
		}
		if extra := moved - must; extra > spare {
			if count++; extra > worst {
				worst, which = extra, id
			}
		}
	}
	if count > 0 {
		f.t.Errorf("%d of %d tasks moved more often than they had to, %s %d times", count, len(ids), which, worst)
	}
}

// fleetFlag is for long runs: 200 nodes take about three minutes on two cores.
var fleetFlag = flag.Int("fleet", 20, "nodes of the clusters that are restarted in turn")

func TestPlacement_M17_ARollingRestartMovesNoTaskMoreThanOnceBesides(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) { f.moreThan(1, f.rolling(0)) })
}

func TestPlacement_ARollingRestartOfNodesThatReturnMovesNoTask(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) { f.moreThan(0, f.rolling(time.Minute)) })
}

// endings lists how a node that may return can end.
var endings = map[string]func(n *windlasstest.Node){
	"killed":  func(n *windlasstest.Node) { n.Kill() },
	"stopped": func(n *windlasstest.Node) { n.Stop() },
}

// inEndings runs a test for each of them.
func inEndings(t *testing.T, test func(t *testing.T, f *fleet, end func(*windlasstest.Node))) {
	for how, end := range endings {
		t.Run(how, func(t *testing.T) {
			inFleet(t, func(t *testing.T, f *fleet) { test(t, f, end) })
		})
	}
}

func TestPlacement_ANodeThatReturnsGetsItsTasksBackAndNothingElseMoves(t *testing.T) {
	for how, end := range endings {
		for _, tasks := range []int{3, 10, 100} {
			t.Run(how, func(t *testing.T) {
				inFleet(t, func(t *testing.T, f *fleet) {
					all := f.nodes(3, returning(time.Minute))
					f.submit("t", tasks, windlass.Spec{})
					f.settle(tasks)
					before, starts := f.holders(), f.starts()
					for _, n := range all {
						end(n)
						f.Advance(20 * time.Second)
						n.Restart()
						f.settle(tasks)
						f.unmoved(before)
					}
					if n := f.moves(starts); n != tasks {
						t.Errorf("%d starts, each of %d tasks had to start once", n, tasks)
					}
					f.still(time.Hour)
				})
			})
		}
	}
}

func TestPlacement_ANodeThatDoesNotReturnIsTakenOverWhenItsTimeIsUp(t *testing.T) {
	inEndings(t, func(t *testing.T, f *fleet, end func(*windlasstest.Node)) {
		all := f.nodes(3, returning(time.Minute))
		f.submit("t", 30, windlass.Spec{})
		f.settle(30)
		before := f.starts()
		end(all[0])
		f.Advance(59 * time.Second)
		if n := f.moves(before); n != 0 {
			t.Errorf("%d tasks moved before the time was up", n)
		}
		f.settle(30)
		f.even("n01", "n02")
		f.still(time.Hour)
	})
}

func TestPlacement_M16_ANodeThatDoesNotMeanToReturnIsTakenOverAtOnce(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		all := f.nodes(3)
		f.submit("t", 30, windlass.Spec{})
		f.Advance(time.Second)
		all[0].Stop()
		f.settle(30)
		f.even("n01", "n02")
	})
}

func TestPlacement_M34_ADrainedNodeIsNotWaitedFor(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		all := f.nodes(3, returning(time.Minute))
		f.submit("t", 30, windlass.Spec{})
		f.Advance(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		f.must(all[0].Drain(ctx))
		f.settle(30)
		f.even("n01", "n02")
		all[0].Stop()
		f.settle(30)
		f.even("n01", "n02")
		f.still(time.Hour)
	})
}

func TestPlacement_WhatANodeReleasesThatMeansToReturnWhenItGoesIsTakenAtOnce(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.nodes(2, returning(time.Minute))
		id := f.submitted("t", windlass.Spec{})[0]
		holder := f.Holder(id)
		f.send(holder.Name(), operate.StopTask, `{"task":"`+id+`"}`)
		f.WaitUntil(30*time.Second, "the other node takes it", func() bool {
			now := f.holders()[id]
			return now != "" && now != holder.Name()
		})
	})
}
