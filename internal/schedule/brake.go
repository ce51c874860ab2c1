package schedule

import "time"

// brakeRest is how long nothing must have waited for the brake before it is released.
const brakeRest = 10 * time.Second

// brake slows down the takeover of tasks when most nodes are gone: it may be this node
// that no longer sees the others.
type brake struct {
	// vanished has the nodes that left without notice, and when.
	vanished map[string]time.Time
	on       bool
	// since is when the brake was applied.
	since time.Time
	// every is the time between two tasks, next when the next one may be claimed.
	every time.Duration
	next  time.Time
}

func newBrake(perSecond int) brake {
	return brake{vanished: map[string]time.Time{}, every: time.Second / time.Duration(perSecond)}
}

// decide applies the brake if at least two nodes, and more than are there, vanished
// since a time. It returns their number if it applies the brake.
func (b *brake) decide(there int, since, now time.Time) int {
	if b.on && !b.rested(now) {
		return 0
	}
	b.on = false
	for name, at := range b.vanished {
		if at.Before(since) {
			delete(b.vanished, name)
		}
	}
	if gone := len(b.vanished); gone >= 2 && gone > there {
		b.on, b.since = true, now
		return gone
	}
	return 0
}

// rested reports whether nothing has waited for the brake for a while.
func (b *brake) rested(now time.Time) bool {
	return now.Sub(later(b.since, b.next)) > brakeRest
}

// holdsBack reports whether tasks of a node wait for the brake.
func (b *brake) holdsBack(node string) bool {
	_, vanished := b.vanished[node]
	return b.on && vanished
}

// Slot reports whether a task that a node held last may be claimed now, and if not when
// to ask again. slot is the time that the brake has assigned to the task, zero for none
// yet.
func (f *Fleet) Slot(last string, slot *time.Time, now time.Time) (again time.Time, ok bool) {
	b := &f.brake
	if !b.holdsBack(last) {
		return time.Time{}, true
	}
	if b.rested(now) {
		b.on = false
		clear(b.vanished)
		return time.Time{}, true
	}
	if slot.IsZero() {
		*slot = later(now, b.next)
		b.next = slot.Add(b.every)
	}
	return *slot, !slot.After(now)
}

// Braked reports whether tasks of a node wait for the brake, here and elsewhere.
func (f *Fleet) Braked(last string, now time.Time) bool {
	return f.brake.holdsBack(last) && !f.brake.rested(now)
}
