// Package mirror is a node's local copy of the data that it decides from: the tasks
// that are not done with their owners, and the nodes with their commands. Elections
// also use it to follow their entries.
//
//	broker --list, then watch--> Follow --Update--> owner's loop
//	                                                  |
//	                                             Tasks, Nodes   (plain maps)
//
// Follow runs in a goroutine of its own and sends updates. Tasks and Nodes are passive,
// belong to the goroutine that applies the updates, and need no lock. All users read
// the copy and never poll the broker.
//
// # Guarantees
//
// A copy at revision r equals a listing at revision r. Updates come with rising
// revisions, without gaps: when the watched history was compacted or the watch broke,
// Follow lists again and sends the whole snapshot, from which Reset finds every
// difference.
//
// A watch is not trusted forever. After each reconcile period a second watch repeats
// what the first one reported in it. If they differ, and after thirty periods in any
// case, everything is listed again. So a change that one watch missed is found one
// period later at the latest, at the cost of what has changed; a change that both
// missed, after thirty.
//
// # What is not guaranteed
//
// The copy lags behind the broker: by milliseconds, or for as long as the broker is
// unreachable. A transaction that relies on the copy checks what must be certain by a
// condition.
package mirror
