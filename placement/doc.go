// Package placement decides which node should run which task, from a view of the
// cluster. It is pure: no I/O, no clock, no randomness, and the order of its input does
// not matter. Every node evaluates the same functions on its own copy. As claims are
// atomic, a difference between two copies costs a little efficiency and never safety.
//
//	Node, Class          what the planner knows of a node, and of a task
//	Plan                 one moment: loads, and how many open tasks each node gets
//	Plan.Take            which node gets this task
//	Plan.Moves           which tasks should move for balance, fewest first
//	Plan.Spread          which tasks should move for the spread of groups
//	Rank                 who is next if that node does not claim it
//
// # How open tasks are assigned
//
// Open tasks are assigned one by one, the oldest first. Each goes to the node that
// would have the lowest load for its weight after one more task: the method of highest
// averages (D'Hondt, 1882; Jefferson, 1792), known from scheduling as list scheduling
// (Graham, 1966). It has two properties that a cluster without a master needs. A
// further task does not change the assignment of earlier ones. And when each node has
// claimed the first few of its own, the remaining tasks go where they would have gone.
// So where all nodes can run the tasks, it does not matter in which portions or how
// late a node learns of tasks and claims: all nodes assign a task to the same node.
//
// Among equally loaded nodes the task's name decides, by rendezvous hashing (Thaler and
// Ravishankar, "Using name-based mappings to increase hit rates", 1998). The spread of
// a group over zones and nodes comes before the load.
//
// Some rules need numbers: how many of the open tasks each node gets. Tasks that few
// nodes can run have places reserved on those nodes. A node gets the tasks that prefer
// it up to its number. Where nodes have a capacity, heavy tasks are placed before light
// ones. These numbers depend on how many tasks a node has seen.
//
// Tasks that end as soon as they have begun are not counted as load. They are assigned
// by name alone, unless they have a group or a preference, or nodes have a capacity or
// a limit for them.
//
// # How an imbalance is corrected
//
// A task moves from the most loaded node to the least loaded one that can run it, as
// long as that leaves the receiver below the giver's previous load, relative to their
// weights. So the moves come to an end, and then nothing moves any more. Among equal
// tasks that every node can run, no plan with as even a result has fewer moves.
//
// Of equally heavy tasks that goes first whose group is thereby spread most, and none whose
// group would be spread less. What is not spread when the loads are even moves where that
// leaves them as even, or in exchange for another task: the sum of the squares of a group's
// numbers falls, so these moves come to an end as well.
package placement
