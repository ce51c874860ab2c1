package windlass_test

import (
	"errors"
	"flag"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
)

// rolling restarts every node in turn.
func (f *fleet) rolling(nodes, tasks int, returnWithin time.Duration) (ids []string) {
	f.t.Helper()
	all := f.nodes(nodes, returning(returnWithin))
	ids = f.submit("t", tasks, windlass.Spec{})
	f.Advance(2 * time.Second)
	for i, n := range all {
		if err := n.Stop(); err != nil {
			f.t.Fatal(err)
		}
		f.Advance(3 * time.Second)
		all[i] = n.Restart()
		f.Advance(2 * time.Second)
	}
	f.allRun(time.Minute, tasks)
	f.even(names(all)...)
	return ids
}

// moreThan counts the tasks that moved more often than their nodes were
// restarted and that many times besides.
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

// fleetFlag is for the long runs: 200 nodes take some three minutes of two cores.
var fleetFlag = flag.Int("fleet", 20, "nodes of the clusters that are restarted in turn")

func rollingSize() (nodes, tasks int) {
	return *fleetFlag, 10 * *fleetFlag
}

func TestPlacement_M17_ARollingRestartMovesNoTaskMoreThanOnceBesides(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		nodes, tasks := rollingSize()
		f.moreThan(1, f.rolling(nodes, tasks, 0))
	})
}

func TestPlacement_ARollingRestartOfNodesThatReturnMovesNoTask(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		nodes, tasks := rollingSize()
		f.moreThan(0, f.rolling(nodes, tasks, time.Minute))
	})
}
