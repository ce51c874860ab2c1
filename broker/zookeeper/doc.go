// Package zookeeper is the broker for a ZooKeeper ensemble, version 3.6 or later.
//
//	broker.Broker            ZooKeeper
//	key                      znode of the same path, below the chroot; children of
//	                         wide directories in 256 buckets
//	revision                 zxid
//	fencing token            czxid, or what a header says
//	session                  session with a connection of its own
//	Commit                   multiRead, then one multi: what was read still holds, and
//	                         the writes
//	Watch, List              one recursive watch, and a ring of records of what each
//	                         transaction changed
//
// # Guarantees
//
// Everything that package broker promises, for data written through this package. In
// particular:
//
//   - Conditions are evaluated in the transaction that writes. It compares the versions
//     of the keys, and those of epochs, which every creation of a key increments. So a
//     key that was deleted and created again is not mistaken for the old one.
//   - Transactions that are refused, or only read, are answered behind a transaction
//     that changes nothing and to which a majority agreed. ZooKeeper's sync asks only
//     its leader, which other servers may have left.
//   - A watch delivers each change with its value and revision, although ZooKeeper
//     reports only that something changed: each transaction writes a record of its
//     changes to one of 8192 slots, in turn. Values longer than
//     broker.WatchedValueBytes are read from their keys; see longValues.
//   - A listing is exact at one revision, however many requests it took: the changes
//     that happened meanwhile are applied to the result.
//   - A session is renewed by a write. A grant returns the timeout less half a tick and
//     less a ping interval. A renewal returns what is left of it since the last renewal
//     that the leader must have received, and no more than the grant; see
//     Config.TickTime. Brokers with sessions end others' that they have not seen renewed
//     for that long. A server does so later.
//
// # What is not guaranteed
//
// The history begins with the connection. A watch from an earlier revision ends with
// ErrCompacted, and so does every watch after the connection broke, unless it is of one
// key that has not changed since. A listing is held in memory as a whole. A znode that
// another program creates below the chroot is visible, but conditions are safe only
// among the programs that use this package; deleting by hand is fine.
//
// A watch may report the deletion of a key that no longer existed: when the directory
// that a transaction of several sessions had prepared ends with its session, and when a
// subtree is deleted just as a directory replaces a key in it.
//
// Any connected broker deletes empty directories; the servers do not. A transaction
// larger than the servers' jute.maxbuffer, 1 MiB by default, is ErrTooLarge. A
// transaction with keys of several sessions takes one more step for each further
// session.
//
// # Failures
//
// Every error is a *broker.Error. A write whose answer was lost has Maybe set; this
// package never sends it again. When the connection breaks, another server is tried,
// never one that is behind what was already seen. Calls wait for it within
// Config.RequestTimeout.
//
// An ensemble that was reset, as by restoring a backup, is recognized: a majority
// agrees to a transaction whose number is below one already seen. Watches and listings
// then begin anew. A session has expired, and says why, if the last write of its znode
// is gone. That is also detected if numbers continue from higher ones, as they do with
// each new leader.
package zookeeper
