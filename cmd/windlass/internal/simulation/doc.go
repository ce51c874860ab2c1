// Package simulation runs whole clusters of real nodes on a real etcd in virtual
// time, does to them at random what can go wrong, and checks that what Windlass
// promises held.
//
//	seed ─► profile ─► storm ──────────────► nodes, clients ─► faulty ─► line ─► etcd
//	                     │ kill, suspend, cut…                                     │
//	                     └─► heal, settle, measure a take-over ─► storm …          │ every event
//	                                                                               ▼
//	        runs of handlers ─► overlap      answers of claims ─► linear      history.Log
//
// One run is one seed: the seed decides the profile (session TTL, number and
// clocks of the nodes, pace and kinds of faults) and everything that the storm
// does. Goroutines are scheduled as they are, so that a seed that failed once may
// need a few repetitions to fail again.
//
// Five judges look at each run, and none of them trusts what nodes say:
//
//   - package history replays the store's own event log (I1, I2, I4 to I8, I12, M06);
//   - the runs of handlers are compared by the one clock that all of them share
//     (I3); a node that is suspended makes no step, and may make none after it
//     goes on before it notices;
//   - claims and endings, as answered to the nodes, and the queues of commands are
//     linearizable (porcupine); answers that never came are decided by the event
//     log, or count as never sent;
//   - what the store says of the jobs of trees is what their runs said: none begins
//     before those that it waits for have ended, none is lost, the last submission
//     counts, and those that wait for one that failed are killed if it says so
//     (Z06, Z07, Z08, Z10, Z11, Z13);
//   - once everything is healed each task that was acknowledged runs once or has
//     ended (I5, V1, V3), none wait for each other (Z12), no node holds more than its share and a tenth (V2) and every
//     node that lives has rejoined (V6).
//
// One node in three is of a version to come: what it writes has fields and keys that
// the others do not know and must keep. By the profile, nodes forget what has ended,
// watches leave out values that were overwritten, as on ZooKeeper, and clients have a
// password and come over connections whose logins end.
//
// A profile with operators breaks, by hand, what S2 assumes of the store: it
// revokes sessions and deletes owner keys. Everything but the overlap must hold
// there too, and the overlap is reported apart.
package simulation
