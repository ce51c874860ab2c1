package loadgen

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// nobody holds a task that does not run.
const nobody = -1

// event is that a task starts on a node, or is told to stop there.
type event struct {
	at   int64 // nanoseconds of the wall clock
	task int
	node int
	stop bool
	// before is where the task ran last and idle how long it did not run, of a
	// start; nobody if it never ran.
	before int
	idle   time.Duration
}

// ledger is what ran where and when, put together from what the nodes wrote down.
// Invariant: a task has one holder at most, or take says that it had two.
type ledger struct {
	holder  []int   // by task
	last    []int   // by task: where it ran last
	stopped []int64 // by task: when it was told to stop there
	running []int   // by node
	// pending are events of a time up to which not all nodes have reported.
	pending []event
	// log are the events since it was last cleared, in order.
	log []event
}

// grow makes room for tasks and nodes.
func (l *ledger) grow(tasks, nodes int) {
	for len(l.holder) < tasks {
		l.holder, l.last, l.stopped = append(l.holder, nobody), append(l.last, nobody), append(l.stopped, 0)
	}
	for len(l.running) < nodes {
		l.running = append(l.running, 0)
	}
}

// add takes what a node wrote down; it counts once take is told that all have
// reported that far.
func (l *ledger) add(node int, lines [][2]int64) error {
	for _, line := range lines {
		e := event{task: int(line[0]), node: node, at: line[1], before: nobody}
		if e.at < 0 {
			e.at, e.stop = -e.at, true
		}
		if e.task < 0 || e.task >= len(l.holder) {
			return fmt.Errorf("node %s ran task %d, of %d", nodeName(node), e.task, len(l.holder))
		}
		l.pending = append(l.pending, e)
	}
	return nil
}

// take enters the events up to a time, in their order.
func (l *ledger) take(asOf int64) error {
	slices.SortStableFunc(l.pending, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	n, _ := slices.BinarySearchFunc(l.pending, asOf+1, func(e event, at int64) int { return cmp.Compare(e.at, at) })
	for _, e := range l.pending[:n] {
		if err := l.enter(e); err != nil {
			return err
		}
	}
	l.pending = slices.Clone(l.pending[n:])
	return nil
}

func (l *ledger) enter(e event) error {
	holder := l.holder[e.task]
	switch {
	case e.stop && holder != e.node:
		return fmt.Errorf("%s was stopped on %s, where it did not run", taskID(e.task), nodeName(e.node))
	case e.stop:
		l.holder[e.task], l.stopped[e.task] = nobody, e.at
		l.running[e.node]--
	case holder != nobody:
		return fmt.Errorf("%s was started on %s while it ran on %s", taskID(e.task), nodeName(e.node), nodeName(holder))
	default:
		if e.before = l.last[e.task]; e.before != nobody {
			e.idle = time.Duration(e.at - l.stopped[e.task])
		}
		l.holder[e.task], l.last[e.task] = e.node, e.node
		l.running[e.node]++
	}
	l.log = append(l.log, e)
	return nil
}

// lose enters that a node was killed.
func (l *ledger) lose(node int, at time.Time) error {
	for task, holder := range l.holder {
		if holder != node {
			continue
		}
		if err := l.enter(event{at: at.UnixNano(), task: task, node: node, stop: true, before: nobody}); err != nil {
			return err
		}
	}
	return nil
}

// starts are those in the log.
func (l *ledger) starts() (starts []event) {
	for _, e := range l.log {
		if !e.stop {
			starts = append(starts, e)
		}
	}
	return starts
}

// lastStart is when the last one in the log was.
func lastStart(starts []event) time.Time {
	if len(starts) == 0 {
		return time.Time{}
	}
	return time.Unix(0, starts[len(starts)-1].at)
}

// since are the times from a moment, or for each task from its own, until it was
// started. A start that seems to be before that is at once.
func since(starts []event, moment func(task int) time.Time) spread {
	times := make([]time.Duration, len(starts))
	for i, e := range starts {
		times[i] = max(0, time.Unix(0, e.at).Sub(moment(e.task)))
	}
	return newSpread(times)
}

// moves are the starts on another node than before, and how long each task did
// not run meanwhile.
func moves(starts []event) (moved []event, idle spread) {
	var times []time.Duration
	for _, e := range starts {
		if e.before != nobody && e.before != e.node {
			moved = append(moved, e)
			times = append(times, e.idle)
		}
	}
	return moved, newSpread(times)
}

// evenSince is from when on all tasks run and no two of the nodes differ by more
// than one, to the end of the log.
func (l *ledger) evenSince(nodes []int, tasks int) (at time.Time, ok bool) {
	counts := l.beforeLog()
	even := func() bool {
		of := pick(counts, nodes)
		return sum(of) == tasks && unevenness(of) <= 1
	}
	if ok = even(); ok && len(l.log) > 0 {
		at = time.Unix(0, l.log[0].at)
	}
	for _, e := range l.log {
		if e.stop {
			counts[e.node]--
		} else {
			counts[e.node]++
		}
		was := ok
		if ok = even(); ok && !was {
			at = time.Unix(0, e.at)
		}
	}
	return at, ok
}

// beforeLog are the running tasks of each node as they were before the log.
func (l *ledger) beforeLog() []int {
	counts := slices.Clone(l.running)
	for _, e := range l.log {
		if e.stop {
			counts[e.node]++
		} else {
			counts[e.node]--
		}
	}
	return counts
}

// pick are the counts of some nodes.
func pick(counts, nodes []int) []int {
	of := make([]int, len(nodes))
	for i, node := range nodes {
		of[i] = counts[node]
	}
	return of
}
