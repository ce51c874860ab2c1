package schedule

import "github.com/windlass-go/windlass/internal/heap"

// openQueue has the candidates of a kind that could be claimed but must wait for a node
// with room, in the order of their turn. There may be very many, so each knows its own
// place.
type openQueue struct{ heap *heap.Heap[*Candidate] }

// order compares two candidates by their turn.
func (c *Candidate) order(d *Candidate) int {
	return c.Kind.Place(c.ID, c.Created).Compare(d.Kind.Place(d.ID, d.Created))
}

func newOpenQueue() *openQueue {
	return &openQueue{heap.New(
		func(c, d *Candidate) bool { return c.order(d) < 0 },
		func(c *Candidate, place int) { c.place = place },
	)}
}

func (q *openQueue) push(c *Candidate) {
	c.queue = q
	q.heap.Push(c)
}

// remove removes a candidate from the queue.
func (q *openQueue) remove(c *Candidate) {
	q.heap.Remove(c.place)
	c.queue = nil
}

// first returns the candidate whose turn it is, nil if none waits.
func (q *openQueue) first() *Candidate {
	if q == nil || q.heap.Len() == 0 {
		return nil
	}
	return q.heap.First()
}
