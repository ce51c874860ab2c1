// Package placement decides who should run what, from a view of the cluster. It
// is pure: no I/O, no clock, no randomness, and the order of its input does not
// matter. Every node evaluates the same functions on its own copy; as claims
// are atomic, a difference between two copies costs a little efficiency and
// never safety.
//
// Share says how many tasks each node should have. Rank says who should claim a
// task first: by rendezvous hashing, so that a node which comes or goes changes
// the order of few tasks. (Thaler and Ravishankar, "Using name-based mappings
// to increase hit rates", 1998.)
package placement
