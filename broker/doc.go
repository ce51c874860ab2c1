// Package broker defines the store interface that Windlass needs, and nothing more.
//
// A broker is a strictly serializable, revisioned map from slash paths to values, with
// conditional transactions, ordered watches and sessions that expire. etcd is one, an
// adapter makes a ZooKeeper ensemble into one, and package memory is one for tests. It
// is not a general key-value abstraction: each method exists because the engine above
// calls it.
//
//	windlass, tree, election
//	        |  keys, conditions, tokens
//	     broker.Broker
//	    /      |       \
//	memory    etcd   zookeeper      adapters, which do not know each other
//
// Every broker guarantees the following, and package brokertest checks it:
//
//   - Commit applies each transaction wholly or not at all, and evaluates its
//     conditions at the moment it is applied. Transactions of one call are independent
//     of each other; those that share a key take effect as if one after the other, in
//     the order given.
//   - A revision is assigned to each applied change and only ever rises. The revision
//     at which a key was created is its fencing token: no other creation of that key,
//     before or after, has the same.
//   - Watch delivers every change of the prefix from the given revision on, in order
//     and exactly once, or it ends with an error.
//   - The keys of a renewed session vanish together, and not earlier than one TTL after
//     its last renewal was sent.
//   - A subtree delete or a listing never touches a sibling whose name merely begins
//     alike: prefixes end in a slash.
//
// An error does not mean "not applied". A request whose reply was lost may have been
// applied, or may still be. MaybeApplied identifies such errors, and the caller reads
// to find out.
//
// An adapter does not renew sessions by itself. Package session renews them for all
// adapters, and decides when one can no longer be trusted.
package broker
