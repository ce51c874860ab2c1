// Package mirror is a node's local copy of what it decides from: the tasks that
// are not done with their owners, and the nodes with their commands. Elections are
// followed with it too.
//
//	broker --list, then watch--> Follow --Update--> owner's loop
//	                                                  |
//	                                             Tasks, Nodes   (plain maps)
//
// Follow runs in a goroutine of its own and sends updates; Tasks and Nodes are
// passive, belong to whoever applies the updates, and need no lock. Everyone
// above reads the copy and never polls the broker.
//
// # What is guaranteed
//
// A copy at revision r equals a listing at revision r. Updates come with rising
// revisions, without gaps: when the watched history was compacted or the watch
// broke, Follow lists anew and sends the whole snapshot, from which Reset finds
// every difference.
//
// A watch is not trusted for ever. When the reconcile period is over, a second
// one tells again what the first has told in it; where they differ, and after
// thirty periods in any case, all is listed anew. So what one watch missed is
// found out a period later at the latest, at the cost of what has changed; what
// both missed, after thirty.
//
// # What is not
//
// The copy lags behind the broker, by milliseconds or, while the broker is
// away, by as long as that takes. Whatever must be certain is checked again by
// a condition in the transaction that relies on it.
package mirror
