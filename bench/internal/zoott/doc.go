// Package zoott compares taking jobs one by one on ZooKeeper: with Windlass, and as
// the original zoott does it. That one lists what is pending and reads each of it to
// find the first, locks it with an ephemeral znode, reads its node of the tree, and
// then writes it down as completed and deletes the lock and the pending znode; each
// of these is a request of its own, one after the other.
package zoott
