// Package heap keeps items with the least first, where any of them may change or go. It is
// container/heap for a type.
package heap

import "container/heap"

// Heap has the least item first. New makes one.
type Heap[T any] struct{ items items[T] }

// New returns an empty heap. moved, unless it is nil, is told each new place of an item, which
// Fix and Remove are called with, and -1 once it is out.
func New[T any](less func(a, b T) bool, moved func(item T, place int)) *Heap[T] {
	return &Heap[T]{items[T]{less: less, moved: moved}}
}

// Len is how many items there are.
func (h *Heap[T]) Len() int { return len(h.items.all) }

// First is the least item. The heap must not be empty.
func (h *Heap[T]) First() T { return h.items.all[0] }

// Push adds an item.
func (h *Heap[T]) Push(item T) { heap.Push(&h.items, item) }

// Pop takes out the least item. The heap must not be empty.
func (h *Heap[T]) Pop() T { return heap.Pop(&h.items).(T) }

// Fix is to be called after the item at a place has changed.
func (h *Heap[T]) Fix(place int) { heap.Fix(&h.items, place) }

// Set replaces the item at a place.
func (h *Heap[T]) Set(place int, item T) {
	h.items.all[place] = item
	h.items.tell(place)
	h.Fix(place)
}

// Remove takes out the item at a place.
func (h *Heap[T]) Remove(place int) { heap.Remove(&h.items, place) }

// items implements heap.Interface.
type items[T any] struct {
	all   []T
	less  func(a, b T) bool
	moved func(item T, place int)
}

// Len implements heap.Interface.
func (s *items[T]) Len() int { return len(s.all) }

// Less implements heap.Interface.
func (s *items[T]) Less(i, j int) bool { return s.less(s.all[i], s.all[j]) }

// Swap implements heap.Interface.
func (s *items[T]) Swap(i, j int) {
	s.all[i], s.all[j] = s.all[j], s.all[i]
	s.tell(i)
	s.tell(j)
}

// Push implements heap.Interface.
func (s *items[T]) Push(x any) {
	s.all = append(s.all, x.(T))
	s.tell(len(s.all) - 1)
}

// Pop implements heap.Interface.
func (s *items[T]) Pop() any {
	last := len(s.all) - 1
	item := s.all[last]
	clear(s.all[last:])
	s.all = s.all[:last]
	if s.moved != nil {
		s.moved(item, -1)
	}
	return item
}

func (s *items[T]) tell(place int) {
	if s.moved != nil {
		s.moved(s.all[place], place)
	}
}
