// Package memory is an in-process broker for tests and simulations. It keeps the
// contract of package broker to the letter, in virtual time as well as in real time. It
// is stricter than etcd where etcd permits what a ZooKeeper ensemble cannot do.
//
//	store := memory.New()
//	defer store.Close()
//	a, b := store.Broker(), store.Broker() // as two processes would
//
//	Broker  Broker  Broker       connections: closing one closes no other
//	     \     |     /
//	        Store                one lock around all
//	  tree | history | sessions  keys by path, changes by revision, timers
//
// It starts no goroutine: a watch runs in the goroutine that iterates over it, and a
// session is a timer. So it can be used in a testing/synctest bubble, in which the
// store must then have been created, and it leaves nothing behind.
//
// It has no durability: nothing survives the process. It has no faults either: a call
// is never slow and its outcome never unknown. Package faulty adds those.
//
// Failures: putting a key below a session's key, or a session's key above existing
// keys, is ErrInvalid. A watch or a listing that falls more than HistoryMax changes
// behind ends with ErrCompacted.
package memory
