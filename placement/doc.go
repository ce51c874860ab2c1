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
// Tasks that nobody holds are given out one by one, each to the node that would
// be the least loaded for its weight with one more: the method of highest
// averages (D'Hondt, 1882; Jefferson, 1792), which has two properties that a
// cluster without a master lives by. Carrying out a part of the plan leaves the
// rest of it as it is, so a node whose copy lags behind the claims of others
// comes to the same plan as they. And a further task changes nothing about the
// earlier ones. Tasks that few nodes can run are divided first.
//
// Which of the tasks a node gets is decided by rendezvous hashing (Thaler and
// Ravishankar, "Using name-based mappings to increase hit rates", 1998) among
// the nodes whose number is not used up: a node that comes or goes changes the
// place of few tasks. Preferred labels come before the hash, and so does the
// spread of a group over zones and nodes.
//
// # How an imbalance is corrected
//
// A task moves from the most loaded node to the least loaded one that can run
// it, while that leaves the receiver below where the giver was, for their weights.
// So moving ends, and then nothing moves any more. Among equal tasks that every
// node can run, no plan with as even a result has fewer moves.
package placement
