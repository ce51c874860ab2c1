// Package schedule decides what a node does about the work of the fleet, without a
// store, a clock or a goroutine: whoever calls it says what has happened and what
// time it is.
//
// Fleet is who is there, what they hold, and whose tasks to leave alone for a
// while. It decides nothing about a single task but that.
//
//	registrations ── Update ──▶ ┌───────┐ ── View ───────▶ placement
//	claims        ── Hold ────▶ │ Fleet │ ── ReservedUntil, Slot ──▶ may it be claimed yet
//	runs, ends    ── Active ──▶ └───────┘ ── MayStart, MayClaim ───▶ is there room here
//
// Nothing here is safe for concurrent use: the node's loop owns it.
package schedule
