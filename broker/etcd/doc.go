// Package etcd is the broker for an etcd cluster, version 3.5.33, 3.6.14, 3.7.1 or
// later.
//
//	broker.Broker            etcd
//	key, prefix              key, range that ends before the prefix's successor
//	revision                 revision of the store, common to all its members
//	fencing token            create revision
//	session                  lease, and two keys in the folder of the session
//	without a folder         lease, in whole seconds
//	Commit                   transactions, many nested in one request
//	Watch                    one watch stream of its own, with a leader required
//
// # Guarantees
//
// Everything that package broker promises, as long as etcd's key-value store is
// strictly serializable. In particular:
//
//   - Reads are linearizable.
//   - All transactions of one Commit that share no key are sent together, about a
//     hundred to a request, and share one revision. Those that share a key are sent one
//     after the other, because etcd evaluates all conditions of a request before it
//     writes anything.
//   - A transaction that etcd refuses does not harm those sent with it: they are sent
//     again one by one.
//   - A watch never divides a revision between two batches. etcd cuts its responses
//     only between revisions, and message fragments are not requested. A watch never
//     reconnects without the caller's knowledge: it ends with an error, and the caller
//     opens another from the last revision on.
//   - A session lives by writes and is ended by the other sessions of its folder, never
//     by a member of etcd; see session.go. A connection that has granted a session
//     checks the others, about ten times in a TTL if they are few.
//   - No call hangs: Config.RequestTimeout limits each request, whatever its context
//     says, and a silent watch ends after broker.ProgressMax.
//
// # What is not guaranteed
//
// Transactions of one Commit that are sent in different requests of the same round may
// get revisions in another order than they were listed in. They share no key, so only
// their revisions show it.
//
// etcd raises the TTL of a lease that is below one and a half of its election timeouts
// (2 s by default): the returned TTL counts. The last session in a folder is not ended
// until another one is created, or a day has passed.
//
// # Failures
//
// Every error is a *broker.Error. A write whose error could hide a commit has Maybe
// set; this package never sends it again. If a transaction's outcome is unknown, later
// ones of the same call that had to wait for it are not sent at all, because they could
// take effect before it.
//
// While the cluster has no leader, requests that were refused for that reason are
// repeated until their time is up, which bridges an election. After that the error is
// ErrNoQuorum.
package etcd
