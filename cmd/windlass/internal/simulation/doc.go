// Package simulation runs whole clusters of real nodes on a real etcd in virtual time,
// injects random faults, and checks that the guarantees of Windlass held.
//
//	seed ─► profile ─► storm ──────────────► nodes, clients ─► faulty ─► line ─► etcd
//	                     │ kill, suspend, cut…                                     │
//	                     └─► heal, settle, measure a take-over ─► storm …          │ every event
//	                                                                               ▼
//	        runs of handlers ─► overlap      answers of claims ─► linear      history.Log
//
// One run is one seed. The seed decides the profile (session TTL, number and clocks of
// the nodes, rate and kinds of faults) and everything that the storm does. It does not
// control how goroutines are scheduled, so a seed that failed once may need a few
// repetitions to fail again.
//
// Five judges check each run, and none of them trusts what nodes say:
//
//   - package history replays the store's own event log (I1, I2, I4 to I8, I12, M06);
//   - the runs of handlers are compared by the one clock that all of them share (I3); a
//     suspended node makes no step, and must make none after it resumes before it
//     notices;
//   - claims and endings, as answered to the nodes, and the queues of commands are
//     linearizable (porcupine); the event log decides answers that never came, or they
//     count as never sent;
//   - the stored state of the jobs of trees agrees with their runs: none begins before
//     those that it waits for have ended, also those of the same call (M11), none is lost,
//     the last submission counts, and those that wait for a failed one are killed if it
//     says so (Z06, Z07, Z08, Z10, Z11, Z13);
//   - once everything is healed each acknowledged task runs once or has ended (I5, V1,
//     V3), none wait for each other (Z12), no node holds more than its share and a
//     tenth (V2) and every living node has rejoined (V6).
//
// One node in three is of a future version: it writes fields and keys that the others
// do not know and must keep. Depending on the profile, nodes forget ended tasks,
// watches leave out values that were overwritten, as on ZooKeeper, and clients have a
// password and come over connections whose logins end.
//
// A profile with operators breaks, by hand, what S2 assumes of the store: it revokes
// sessions and deletes owner keys. Everything except the overlap must hold there too,
// and the overlap is reported separately.
package simulation
