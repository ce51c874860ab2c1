package schedule

import (
	"container/heap"
	"time"
)

// Times holds names until their time comes, in time order. A name that is
// pushed again moves to its new time. The zero value is ready.
type Times struct {
	items []timed
	index map[string]int // position in items
}

type timed struct {
	name string
	at   time.Time
}

// Len implements heap.Interface.
func (q *Times) Len() int { return len(q.items) }

// Less implements heap.Interface.
func (q *Times) Less(i, j int) bool { return q.items[i].at.Before(q.items[j].at) }

// Swap implements heap.Interface.
func (q *Times) Swap(i, j int) {
	q.items[i], q.items[j] = q.items[j], q.items[i]
	q.index[q.items[i].name], q.index[q.items[j].name] = i, j
}

// Push implements heap.Interface; use Set.
func (q *Times) Push(x any) {
	item := x.(timed)
	q.index[item.name] = len(q.items)
	q.items = append(q.items, item)
}

// Pop implements heap.Interface; use PopDue.
func (q *Times) Pop() any {
	last := len(q.items) - 1
	item := q.items[last]
	q.items = q.items[:last]
	delete(q.index, item.name)
	return item
}

// Set gives a name its time.
func (q *Times) Set(name string, at time.Time) {
	if q.index == nil {
		q.index = map[string]int{}
	}
	if i, ok := q.index[name]; ok {
		q.items[i].at = at
		heap.Fix(q, i)
		return
	}
	heap.Push(q, timed{name: name, at: at})
}

// Remove forgets a name.
func (q *Times) Remove(name string) {
	if i, ok := q.index[name]; ok {
		heap.Remove(q, i)
	}
}

// Has reports whether a name is in it.
func (q *Times) Has(name string) bool {
	_, ok := q.index[name]
	return ok
}

// Next is the earliest time, zero if there is none.
func (q *Times) Next() time.Time {
	if len(q.items) == 0 {
		return time.Time{}
	}
	return q.items[0].at
}

// PopDue takes the names out whose time has come, in time order.
func (q *Times) PopDue(now time.Time) []string {
	var due []string
	for len(q.items) > 0 && !q.items[0].at.After(now) {
		due = append(due, heap.Pop(q).(timed).name)
	}
	return due
}
