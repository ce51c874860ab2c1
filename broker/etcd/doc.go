// Package etcd is the broker over an etcd cluster, version 3.5.33, 3.6.14, 3.7.1
// or later.
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
// # What it guarantees
//
// Everything that package broker promises, as long as etcd's key-value store is
// strictly serializable. In particular:
//
//   - Reads are linearizable.
//   - All transactions of one Commit that do not touch a common key travel
//     together, about a hundred to a request, and share one revision. Those that
//     do touch a common key travel one after the other, because etcd decides all
//     conditions of a request before it writes anything.
//   - A transaction that etcd refuses harms none of those it travelled with:
//     they are sent again one by one.
//   - A watch never divides a revision between two batches. etcd cuts its
//     responses only between revisions, and message fragments are not asked for.
//     It never reconnects behind the caller's back: it ends with an error, and
//     the caller opens another from the last revision on.
//   - A session lives by writes and is ended by the other sessions of its folder,
//     never by a member of etcd; see session.go. A connection that has granted
//     one looks at the others, about ten times in a TTL where they are few.
//   - No call hangs: each request is bounded by Config.RequestTimeout, whatever
//     its context says, and a silent watch ends after broker.ProgressMax.
//
// # What it does not
//
// Transactions of one Commit that travel in different requests of the same round
// may be given revisions in another order than they were listed in; as they have
// no key in common nothing but the revisions can tell. etcd raises the TTL of a lease that is below one
// and a half of its election timeouts (2 s by default): the one returned counts. A
// session that is the last in its folder is ended by nobody before another one comes,
// or a day has passed.
//
// # How it fails
//
// Every error is a *broker.Error. A write whose error could hide a commit has
// Maybe set; it is never sent again from here. When a transaction's outcome is
// unknown, later ones of the same call that had to wait for it are not sent at
// all, because they could take effect before it.
//
// While the cluster has no leader, requests that were refused for that reason are
// repeated until their time is up, which bridges an election; then the error is
// ErrNoQuorum.
package etcd
