package schedule

import "container/heap"

// openQueue has the candidates of a kind that could be claimed and have to wait
// for someone with room, in the order in which it is their turn. There may be very
// many, so each knows its own place. The zero value is ready.
type openQueue struct{ heap openHeap }

// order compares two candidates by whose turn it is.
func (c *Candidate) order(d *Candidate) int {
	return c.Kind.Place(c.ID, c.Created).Compare(d.Kind.Place(d.ID, d.Created))
}

func (q *openQueue) push(c *Candidate) {
	c.queue = q
	heap.Push(&q.heap, c)
}

// remove forgets a candidate that is in the queue.
func (q *openQueue) remove(c *Candidate) {
	heap.Remove(&q.heap, c.place)
	c.queue = nil
}

// first is whose turn it is, nil if nobody waits.
func (q *openQueue) first() *Candidate {
	if q == nil || len(q.heap) == 0 {
		return nil
	}
	return q.heap[0]
}

// openHeap implements heap.Interface; candidate.place is the place.
type openHeap []*Candidate

// Len implements heap.Interface.
func (h openHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h openHeap) Less(i, j int) bool { return h[i].order(h[j]) < 0 }

// Swap implements heap.Interface.
func (h openHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *openHeap) Push(x any) {
	c := x.(*Candidate)
	c.place = len(*h)
	*h = append(*h, c)
}

// Pop implements heap.Interface.
func (h *openHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}

// queueHeap implements heap.Interface over queues that are not empty, by whose
// turn it is in each.
type queueHeap []*openQueue

// Len implements heap.Interface.
func (h queueHeap) Len() int { return len(h) }

// Less implements heap.Interface.
func (h queueHeap) Less(i, j int) bool { return h[i].first().order(h[j].first()) < 0 }

// Swap implements heap.Interface.
func (h queueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *queueHeap) Push(x any) { *h = append(*h, x.(*openQueue)) }

// Pop implements heap.Interface.
func (h *queueHeap) Pop() any {
	last := len(*h) - 1
	q := (*h)[last]
	*h = (*h)[:last]
	return q
}
