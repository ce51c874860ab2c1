// Package elections compares Windlass's elections with the etcd client's own,
// concurrency.Election, on one etcd: how long it takes until the next one leads when
// the leader resigns, and when it is lost.
//
// Both sides have as many candidates, which share one connection a side, and take
// turns. A leader that resigned stands again at the end, so that the line stays as
// long as it was.
package elections
