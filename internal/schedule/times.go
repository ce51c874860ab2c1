package schedule

import (
	"time"

	"github.com/windlass-go/windlass/internal/heap"
)

// Times holds names until their time comes, in time order. Setting a name again moves
// it to its new time. The zero value is ready to use.
type Times struct {
	heap  *heap.Heap[timed]
	index map[string]int // place in the heap
}

type timed struct {
	name string
	at   time.Time
}

// Set sets the time of a name.
func (q *Times) Set(name string, at time.Time) {
	if q.heap == nil {
		q.index = map[string]int{}
		q.heap = heap.New(func(a, b timed) bool { return a.at.Before(b.at) }, q.moved)
	}
	if i, ok := q.index[name]; ok {
		q.heap.Set(i, timed{name: name, at: at})
		return
	}
	q.heap.Push(timed{name: name, at: at})
}

func (q *Times) moved(t timed, place int) {
	if place < 0 {
		delete(q.index, t.name)
	} else {
		q.index[t.name] = place
	}
}

// Len returns how many names there are.
func (q *Times) Len() int { return len(q.index) }

// Remove removes a name.
func (q *Times) Remove(name string) {
	if i, ok := q.index[name]; ok {
		q.heap.Remove(i)
	}
}

// Has reports whether it has a name.
func (q *Times) Has(name string) bool {
	_, ok := q.index[name]
	return ok
}

// Next returns the earliest time, zero if there is none.
func (q *Times) Next() time.Time {
	if q.Len() == 0 {
		return time.Time{}
	}
	return q.heap.First().at
}

// soonest returns the earliest of some times; zero stands for never.
func soonest(times ...time.Time) (at time.Time) {
	for _, t := range times {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

// PopDue removes and returns the names whose time has come, in time order.
func (q *Times) PopDue(now time.Time) (due []string) {
	for q.Len() > 0 && !q.heap.First().at.After(now) {
		due = append(due, q.heap.Pop().name)
	}
	return due
}
