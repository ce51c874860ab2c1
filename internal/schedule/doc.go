// Package schedule decides what a node does about the work of the fleet, without a
// store, a clock or a goroutine: whoever calls it says what has happened and what
// time it is.
//
// Fleet is who is there, what they hold, and whose tasks to leave alone for a
// while. Board has the tasks that nobody holds, and decides which of them this node
// claims. Giving decides which of its claims it gives away, to whom, and how fast.
//
//	registrations ── Update ───▶ ┌───────┐ ── View ─────▶ placement
//	claims        ── Hold ─────▶ │ Fleet │
//	runs, ends    ── Active ───▶ └───────┘
//	                              │     │ who may have what
//	                      ┌───────▼┐   ┌▼───────┐
//	tasks   ── Changed ─▶ │ Board  │   │ Giving │ ◀─ Shown, FleetChanged, Drain ── what came
//	answers ── Landed ──▶ └────────┘   └────────┘
//	                       │ Pass, Pull │ Pass, Departures
//	                       ▼            ▼
//	             what to claim        what to tell to stop
//
// A candidate is a task that nobody holds. Once nothing but rank and balance speaks
// against claiming it, it is open, and the plan gives it a target: the node that is to
// claim it. If that is this node, the balancer is asked, and the claim goes out: it is
// a flight until its answer lands. If the target does not claim, others stand in for
// it, one by one and carefully, because it may be their copies that are late. What was
// claimed in another's stead is offered to it again later, one task of a type at first.
//
// In one turn of the node the order is: what came, Board.Pass, Giving.Pass, Departures.
// What is open and being claimed must be decided before what to give away, or the plan
// would count it as nobody's.
//
// Nothing here is safe for concurrent use: the node's loop owns it. And nothing here
// decides about safety: a claim that should not have been made is refused by the store.
package schedule
