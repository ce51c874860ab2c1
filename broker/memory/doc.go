// Package memory is a broker inside this process, for tests and simulations. It
// keeps the contract of package broker to the letter, in virtual time as well as
// in real time, and is stricter than etcd where etcd permits what a ZooKeeper
// ensemble cannot do.
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
// It starts no goroutine: a watch runs in the goroutine that iterates it, and a
// session is a timer. So it may be used in a testing/synctest bubble, in which
// the store must then have been created, and leaves nothing behind.
//
// What it does not give: durability, or anything that survives the process; and
// no faults, as a call is never slow and its outcome never unknown. Package
// faulty adds those.
//
// How it fails: a put below a key of a session, or a session's key put where
// there are keys below it, is ErrInvalid. A watch or a listing that is slower
// than HistoryMax changes ends with ErrCompacted.
package memory
