// Package loadgen measures how many tasks a second start to run on a fleet of nodes,
// how many jobs a second they complete, and how soon tasks run again after a node has
// died. In the same run it measures the best that the broker can do, because rates
// depend on the machine and their ratios do not.
//
//	+------------------- this process -------------------+
//	| raw puts and claims, submissions -- connection 0 --|---+
//	| node 1, whose handlers do nothing - connection 1 --|---|--> broker
//	| node 2, ...                         connection 2 --|---+
//	+----------------------------------------------------+
//
// A node dies by losing its connection: it can give nothing back, so the others have to
// wait until its session has expired, as after a power cut.
//
// # Guarantees
//
// Everything that it writes to the broker is in a namespace of its own, which is
// deleted in the end, also after an error or an interrupt. Every wait is bounded and
// names what it waited for.
//
// # What is not guaranteed
//
// All nodes share one process, and the processors of one machine; the figures are not
// those of a fleet on several machines. It does not check whether a task ever runs
// twice: the tests of the cluster do that.
package loadgen
