// Package zookeeper is the broker over a ZooKeeper ensemble, version 3.6 or later.
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
// # What it guarantees
//
// Everything that package broker promises, of what goes through this package. In
// particular:
//
//   - Conditions are decided in the transaction that writes: it compares the versions
//     of the keys, and those of epochs, which each creation of a key counts up, so that
//     a key that was deleted and created again is not taken for the old one.
//   - What is refused, or only read, was read behind a transaction that changes nothing
//     and to which a majority agreed: ZooKeeper's sync asks its leader alone, which others
//     may have left.
//   - A watch delivers each change with its value and revision, although ZooKeeper
//     tells only that something changed: each transaction writes a record of its
//     changes to one of 8192 slots that go round. Values longer than
//     broker.WatchedValueBytes are read from their keys; see longValues.
//   - A listing is exact at one revision, however many requests it took: the changes
//     that happened meanwhile are applied to what was found.
//   - A session is renewed by a write. A grant returns the timeout less half a tick and
//     less a ping interval; a renewal what is left of it since the last that the leader
//     must have been told; see Config.TickTime.
//
// # What it does not
//
// It has history only from when the connection began; a watch from before ends with
// ErrCompacted, and so does every watch after the connection broke, unless it is of one
// key that has not changed since. A listing is held in memory as a whole. A znode that
// another program creates below the chroot is seen, but conditions are safe only among
// those that use this package; deleting by hand is fine.
//
// A deletion may be watched of a key that was not there any more: when the directory that
// a transaction of several sessions had prepared ends with its session, and when a subtree
// is deleted just as a directory comes in the place of a key in it.
//
// Empty directories are deleted by any connected broker, not by the servers. What the
// servers' jute.maxbuffer does not take is ErrTooLarge: by default that is a transaction
// of 1 MiB. A transaction with keys of several sessions takes a step more for each
// further session.
//
// # How it fails
//
// Every error is a *broker.Error. A write whose answer was lost has Maybe set, and is
// never sent again from here. When the connection breaks, another server is tried, never
// one that is behind what was seen; calls wait for it within Config.RequestTimeout.
//
// An ensemble that was set back, as by restoring a backup, is recognized: a majority agrees
// to a transaction whose number is below one that was seen. Then watches and listings begin
// anew. A session has expired, and says why, if the last write of its znode is gone, also
// where numbers go on from higher ones, as they do with each new leader.
package zookeeper
