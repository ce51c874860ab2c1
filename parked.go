package windlass

import (
	"math"
	"time"

	"github.com/windlass-go/windlass/internal/heap"
)

// parkedQueue holds the runs that are to go on at a time, the earliest first. A
// node can hold a hundred thousand tasks that sleep, so each knows its own place
// instead of being looked up.
type parkedQueue struct{ heap *heap.Heap[parkedRun] }

// parkedRun is a run with when it is to go on, in nanoseconds since 1970: it is a
// time of the wall clock, for all nodes to agree on.
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

// set gives a run its time, or another one.
func (q parkedQueue) set(r *run, at time.Time) {
	if p := (parkedRun{run: r, at: wallNanos(at)}); r.wakes > 0 {
		q.heap.Set(int(r.wakes-1), p)
	} else {
		q.heap.Push(p)
	}
}

// remove forgets a run.
func (q parkedQueue) remove(r *run) {
	if r.wakes > 0 {
		q.heap.Remove(int(r.wakes - 1))
	}
}

// next is the earliest time, zero if there is none.
func (q parkedQueue) next() time.Time {
	if q.heap.Len() == 0 {
		return time.Time{}
	}
	return time.Unix(0, q.heap.First().at)
}

// popDue takes the runs out whose time has come, in time order.
func (q parkedQueue) popDue(now time.Time) (due []*run) {
	for q.heap.Len() > 0 && q.heap.First().at <= now.UnixNano() {
		due = append(due, q.heap.Pop().run)
	}
	return due
}

// wallNanos is a time for parkedRun. Whatever is later than the year 2262 is then.
func wallNanos(t time.Time) int64 {
	if t.After(time.Unix(0, math.MaxInt64)) {
		return math.MaxInt64
	}
	return t.UnixNano()
}
