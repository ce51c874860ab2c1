// Package schedule decides what a node does about the tasks of the cluster, without a
// store, a clock or a goroutine: the caller reports what has happened and passes the
// time.
//
// Fleet knows which nodes there are, what they hold, and whose tasks to leave alone for
// a while. Board has the tasks that no node holds, and decides which of them this node
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
// A candidate is a task that no node holds. Once only rank and balance can prevent its
// claim, it is open, and the plan assigns it a target: the node that is to claim it. If
// that is this node, the balancer is asked, and the claim is sent: it is in flight
// until its answer arrives. If the target does not claim, others stand in for it, one
// by one and carefully, because their copies may be the ones that lag. A task that was
// claimed in another node's stead is offered to that node again later, one task of a
// type at first.
//
// In one turn of the node the order is: incoming changes, Board.Pass, Giving.Pass,
// Departures. Open tasks and claims must be decided before what to give away, or the
// plan would count them as held by no node.
//
// Nothing here is safe for concurrent use: the node's loop owns it. And nothing here
// decides about safety: the store refuses a claim that should not have been made.
package schedule
