// Package broker defines the store as Windlass needs it, and nothing more.
//
// A broker is a strictly serializable, revisioned map from slash paths to
// values, with conditional transactions, ordered watches and sessions that
// expire. etcd is one; a ZooKeeper ensemble is made to look like one; package
// memory is one for tests. It is not a general key-value abstraction: each
// method exists because the engine above calls it.
//
//	windlass, tree, election
//	        |  keys, conditions, tokens
//	     broker.Broker
//	    /      |       \
//	memory    etcd   zookeeper      adapters, which do not know each other
//
// What every broker guarantees, and package brokertest checks:
//
//   - Commit applies each transaction wholly or not at all, and decides its
//     conditions at the moment it is applied. Transactions of one call are
//     independent of each other; those that have a key in common take effect as
//     if one after the other, in the order given.
//   - A revision is assigned to each applied change and only ever rises. The
//     revision at which a key was created is its fencing token: no other
//     creation of that key, before or after, has the same.
//   - Watch delivers every change of the prefix from the given revision on,
//     in order, none twice and none left out, or it ends with an error.
//   - The keys of a session that is renewed vanish together, and not earlier
//     than one TTL after its last renewal was sent.
//   - A subtree delete or a listing never touches a sibling whose name merely
//     begins alike: prefixes end in a slash.
//
// What it does not promise: that an error means "not applied". A request whose
// reply was lost may have been applied, or may still be; MaybeApplied tells
// those errors from the others, and the caller finds out by reading.
//
// An adapter renews no session by itself. Renewing, and knowing when a session
// can no longer be trusted, is done once for all adapters by package session.
package broker
