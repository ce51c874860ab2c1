package windlass

import (
	"math"
	"time"

	"github.com/windlass-go/windlass/internal/heap"
	"github.com/windlass-go/windlass/internal/life"
	"github.com/windlass-go/windlass/statemachine"
)

// park holds the claim without a handler.
func (in *incarnation) park(r *run) {
	in.enter(r, life.Parked)
	r.handle = nil
	in.node.publishRun(r)
}

// wakeParked continues the parked tasks whose time has come.
func (in *incarnation) wakeParked(now time.Time) {
	for _, r := range in.parked.popDue(now) {
		switch {
		case r.phase.On(life.Due) != life.Act:
		case !in.session.MayStart():
			in.parked.set(r, now.Add(in.session.Timing().Renew))
		case r.record.State == statemachine.Runnable:
			in.start(r)
		case r.record.State == statemachine.Sleeping:
			in.awake(r)
		}
	}
}

// awake stores that a sleeping or paused task is runnable; it runs once that is stored. If
// its type is paused, it stores that.
func (in *incarnation) awake(r *run) {
	r.record.Wake(in.paused[r.class().Type])
	in.save(r)
}

// parkedQueue holds the runs that are to continue at a time, the earliest first. A node
// can hold a hundred thousand sleeping tasks, so each knows its own place instead of
// being looked up.
type parkedQueue struct{ heap *heap.Heap[parkedRun] }

// parkedRun is a run and when it is to continue, in nanoseconds since 1970. That is
// wall clock time, on which all nodes agree.
type parkedRun struct {
	run *run
	at  int64
}

func newParkedQueue() parkedQueue {
	return parkedQueue{heap.New(
		func(a, b parkedRun) bool { return a.at < b.at },
		func(p parkedRun, place int) { p.run.wakes = int32(place + 1) },
	)}
}

// set sets or changes the time of a run.
func (q parkedQueue) set(r *run, at time.Time) {
	if p := (parkedRun{run: r, at: wallNanos(at)}); r.wakes > 0 {
		q.heap.Set(int(r.wakes-1), p)
	} else {
		q.heap.Push(p)
	}
}

// remove removes a run.
func (q parkedQueue) remove(r *run) {
	if r.wakes > 0 {
		q.heap.Remove(int(r.wakes - 1))
	}
}

// next returns the earliest time, zero if there is none.
func (q parkedQueue) next() time.Time {
	if q.heap.Len() == 0 {
		return time.Time{}
	}
	return time.Unix(0, q.heap.First().at)
}

// popDue removes and returns the runs whose time has come, in time order.
func (q parkedQueue) popDue(now time.Time) (due []*run) {
	for q.heap.Len() > 0 && q.heap.First().at <= now.UnixNano() {
		due = append(due, q.heap.Pop().run)
	}
	return due
}

// wallNanos converts a time for parkedRun. Times after the year 2262 become its largest
// value.
func wallNanos(t time.Time) int64 {
	if t.After(time.Unix(0, math.MaxInt64)) {
		return math.MaxInt64
	}
	return t.UnixNano()
}
