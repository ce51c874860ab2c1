package windlass

import (
	"container/heap"
	"math"
	"time"
)

// parkedQueue holds the runs that are to go on at a time, the earliest first. A
// node can hold a hundred thousand tasks that sleep, so each knows its own place
// instead of being looked up. The zero value is ready.
type parkedQueue struct{ heap parkedHeap }

// set gives a run its time, or another one.
func (q *parkedQueue) set(r *run, at time.Time) {
	if r.wakes > 0 {
		q.heap[r.wakes-1].at = wallNanos(at)
		heap.Fix(&q.heap, int(r.wakes-1))
		return
	}
	heap.Push(&q.heap, parkedRun{run: r, at: wallNanos(at)})
}

// remove forgets a run.
func (q *parkedQueue) remove(r *run) {
	if r.wakes > 0 {
		heap.Remove(&q.heap, int(r.wakes-1))
	}
}

// next is the earliest time, zero if there is none.
func (q *parkedQueue) next() time.Time {
	if len(q.heap) == 0 {
		return time.Time{}
	}
	return time.Unix(0, q.heap[0].at)
}

// popDue takes the runs out whose time has come, in time order.
func (q *parkedQueue) popDue(now time.Time) (due []*run) {
	for len(q.heap) > 0 && q.heap[0].at <= now.UnixNano() {
		due = append(due, heap.Pop(&q.heap).(parkedRun).run)
	}
	return due
}

// parkedRun is a run with when it is to go on, in nanoseconds since 1970: it is a
// time of the wall clock, for all nodes to agree on.
type parkedRun struct {
	run *run
	at  int64
}

// wallNanos is a time for parkedRun. Whatever is later than the year 2262 is then.
func wallNanos(t time.Time) int64 {
	if t.After(time.Unix(0, math.MaxInt64)) {
		return math.MaxInt64
	}
	return t.UnixNano()
}

// parkedHeap implements heap.Interface; run.wakes is the place, counted from one.
type parkedHeap []parkedRun

// Len implements heap.Interface.
func (h parkedHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h parkedHeap) Less(i, j int) bool { return h[i].at < h[j].at }

// Swap implements heap.Interface.
func (h parkedHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].run.wakes, h[j].run.wakes = int32(i+1), int32(j+1)
}

// Push implements heap.Interface.
func (h *parkedHeap) Push(x any) {
	item := x.(parkedRun)
	item.run.wakes = int32(len(*h) + 1)
	*h = append(*h, item)
}

// Pop implements heap.Interface.
func (h *parkedHeap) Pop() any {
	last := len(*h) - 1
	item := (*h)[last]
	(*h)[last] = parkedRun{}
	*h = (*h)[:last]
	item.run.wakes = 0
	return item
}
