package outbox

import (
	"math"
	"slices"
	"sort"
	"time"
)

// Unbounded means no limit of a lane.
const Unbounded = math.MaxInt

// Lane is a queue of writes of one sort. A key waits at most once: a later value
// replaces the waiting one, and does not affect calls in flight. An empty lane keeps no
// memory, however much it held.
type Lane[K comparable, V any] struct {
	// BatchMax limits the writes in one call, CallsMax the calls in flight at once. A
	// lane sends nothing before both are set.
	BatchMax, CallsMax int

	// items are the writes that wait or are in flight. waiting is sorted by time, and
	// by the order of Put for the same time.
	items   map[K]*item[K, V]
	waiting []*item[K, V]
	// calls is the number of calls in flight, pausedUntil the time before which no
	// other may begin.
	calls       int
	pausedUntil time.Time
}

// item is a write that waits until a time, or is in flight in some calls, or both.
type item[K comparable, V any] struct {
	key      K
	value    V // of the waiting write
	at       time.Time
	waits    bool
	underWay int
}

// Call is a group of writes to send together. The caller of Take may change its values.
type Call[K comparable, V any] struct {
	Keys   []K
	Values []V
}

// Put queues a write that waits at least until a time; zero means no longer than
// necessary. It replaces the waiting write of that key, and keeps its place if the time
// is the same.
func (l *Lane[K, V]) Put(key K, value V, notBefore time.Time) {
	i := l.items[key]
	if i == nil {
		if l.items == nil {
			l.items = map[K]*item[K, V]{}
		}
		i = &item[K, V]{key: key}
		l.items[key] = i
	}
	if i.value = value; i.waits && i.at.Equal(notBefore) {
		return
	}
	if i.waits {
		from := sort.Search(len(l.waiting), func(n int) bool { return !l.waiting[n].at.Before(i.at) })
		from += slices.Index(l.waiting[from:], i)
		l.waiting = slices.Delete(l.waiting, from, from+1)
	}
	i.at, i.waits = notBefore, true
	to := sort.Search(len(l.waiting), func(n int) bool { return l.waiting[n].at.After(notBefore) })
	l.waiting = slices.Insert(l.waiting, to, i)
}

// Take returns the next call, which is in flight from now on. It returns false if
// nothing is due, enough calls are in flight, or the lane is paused.
func (l *Lane[K, V]) Take(now time.Time) (c Call[K, V], ok bool) {
	n := min(l.due(now), l.BatchMax)
	if n == 0 {
		return c, false
	}
	c.Keys, c.Values = make([]K, 0, n), make([]V, 0, n)
	for _, i := range l.waiting[:n] {
		c.Keys, c.Values = append(c.Keys, i.key), append(c.Values, i.value)
		i.underWay++
	}
	l.calls++
	l.drop(n, func(K, V) bool { return false })
	return c, true
}

// Done ends a call. The caller puts writes to be retried again.
func (l *Lane[K, V]) Done(c Call[K, V]) {
	l.calls--
	for _, key := range c.Keys {
		i := l.items[key]
		i.underWay--
		l.forget(i)
	}
}

// Sift drops due writes that are no longer worth sending. It does nothing while Take
// would return nothing. keep must not use the lane.
func (l *Lane[K, V]) Sift(now time.Time, keep func(K, V) bool) { l.drop(l.due(now), keep) }

// DropAll drops all waiting writes, and returns them in order.
func (l *Lane[K, V]) DropAll() (dropped []V) {
	l.drop(len(l.waiting), func(_ K, v V) bool {
		dropped = append(dropped, v)
		return false
	})
	return dropped
}

// Pause prevents calls from beginning before a time, however much is due.
func (l *Lane[K, V]) Pause(until time.Time) { l.pausedUntil = until }

// Paused reports whether the lane is paused.
func (l *Lane[K, V]) Paused(now time.Time) bool { return now.Before(l.pausedUntil) }

// Wake returns when Take will return something without further events. It is zero if
// nothing waits, or if the lane waits for the answer to a call.
func (l *Lane[K, V]) Wake() time.Time {
	if len(l.waiting) == 0 || l.calls >= l.CallsMax {
		return time.Time{}
	}
	return latest(time.Unix(0, 0), l.waiting[0].at, l.pausedUntil) // zero would be never
}

// Has reports whether a write of a key waits or is in flight.
func (l *Lane[K, V]) Has(key K) bool { return l.items[key] != nil }

// UnderWay reports whether a write of a key is in flight.
func (l *Lane[K, V]) UnderWay(key K) bool { return l.Has(key) && l.items[key].underWay > 0 }

// Len returns how many writes wait.
func (l *Lane[K, V]) Len() int { return len(l.waiting) }

// Calls returns how many calls are in flight.
func (l *Lane[K, V]) Calls() int { return l.calls }

// Empty reports whether nothing waits or is in flight.
func (l *Lane[K, V]) Empty() bool { return len(l.items) == 0 }

// due returns how many of the waiting writes could be sent now.
func (l *Lane[K, V]) due(now time.Time) int {
	if l.calls >= l.CallsMax || l.Paused(now) {
		return 0
	}
	return sort.Search(len(l.waiting), func(n int) bool { return l.waiting[n].at.After(now) })
}

// drop removes those of the first n waiting writes that keep rejects.
func (l *Lane[K, V]) drop(n int, keep func(K, V) bool) {
	kept := 0
	for _, i := range l.waiting[:n] {
		if keep(i.key, i.value) {
			l.waiting[kept] = i
			kept++
			continue
		}
		var none V
		i.value, i.waits = none, false
		l.forget(i)
	}
	if l.waiting = slices.Delete(l.waiting, kept, n); len(l.waiting) == 0 {
		l.waiting = nil // there may have been very many
	}
}

// forget removes an item that neither waits nor is in flight.
func (l *Lane[K, V]) forget(i *item[K, V]) {
	if i.waits || i.underWay > 0 {
		return
	}
	if delete(l.items, i.key); len(l.items) == 0 {
		l.items = nil
	}
}

// latest returns the latest of some times.
func latest(t time.Time, others ...time.Time) time.Time {
	for _, other := range others {
		if other.After(t) {
			t = other
		}
	}
	return t
}
