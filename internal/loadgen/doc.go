// Package loadgen measures how fast a fleet of nodes places, moves and keeps
// tasks, beside what the broker could do at best: the same run times bare
// transactions of the same shape, because absolute figures belong to a machine
// and ratios do not.
//
//	                 commands, submissions            +--------+
//	this process  ------------------------------->    | broker |
//	   |  ^                                           +--------+
//	   |  | counts every 10 ms; events when asked for      ^
//	   v  |                                                | claims
//	node processes, one windlass.Node each, whose handlers only wait
//
// A node process writes down when each handler starts and stops, by the wall
// clock, which the processes of a host share. While something is measured it says
// no more than how many run; what it wrote down is fetched when all is quiet, so
// that the measurement disturbs itself as little as it can. What is reported is
// computed from these events, never from when this process noticed.
//
// # What is guaranteed
//
// All that it writes to the broker is in a namespace of its own, which is deleted
// in the end, also after an interrupt. The processes that it starts end with it,
// even if it is killed. Every wait is bounded, and says what it waited for. Two
// handlers of one task that run at the same moment end the run with an error.
//
// # What is not
//
// Nodes, broker and this process share a machine, and so its processors. The
// figures are what they reach together.
package loadgen
