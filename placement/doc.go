// Package placement decides who should run what, from a view of the cluster. It
// is pure: no I/O, no clock, no randomness, and the order of its input does not
// matter. Every node evaluates the same functions on its own copy; as claims
// are atomic, a difference between two copies costs a little efficiency and
// never safety.
//
//	Node, Class          what the planner knows of a node, and of a task
//	Plan                 one moment: loads, and how many open tasks each node gets
//	Plan.Take            which node gets this task
//	Plan.Moves           which tasks should move for balance, fewest first
//	Rank                 who is next if that node does not claim it
//
// # How open tasks are divided
//
// Tasks that nobody holds are given out one by one, the oldest first, each to the
// node that would be the least loaded for its weight with one more: the method of
// highest averages (D'Hondt, 1882; Jefferson, 1792), known from scheduling as list
// scheduling (Graham, 1966). It has two properties that a cluster without a master
// lives by. A further task changes nothing about the earlier ones. And when each node
// has claimed the first few that are its own, what is left goes where it would have
// gone. So where all nodes can run the tasks it does not matter in which portions one
// hears of tasks and claims, or how late: all give a task to the same node.
//
// Of nodes that are equally loaded the task's name decides, by rendezvous hashing
// (Thaler and Ravishankar, "Using name-based mappings to increase hit rates", 1998).
// The spread of a group over zones and nodes comes before the load.
//
// Some things need numbers: how many of the tasks that are open each node gets. Tasks
// that few nodes can run have their places kept on those. A node gets what prefers it
// up to its number. Where nodes have a capacity, what is heavy has its place before what
// is light. These numbers depend on how many tasks one has seen.
//
// Tasks that end as soon as they have begun are no load, and go by name alone, unless
// they have a group or a preference, or nodes a capacity or a limit for them.
//
// # How an imbalance is corrected
//
// A task moves from the most loaded node to the least loaded one that can run
// it, while that leaves the receiver below where the giver was, for their weights.
// So moving ends, and then nothing moves any more. Among equal tasks that every
// node can run, no plan with as even a result has fewer moves.
package placement
