// Package brokertest is what a broker must do, as numbered rules that run. An
// adapter that passes them all may be put under Windlass; the engine relies on
// nothing that is not checked here.
//
//	func TestBroker(t *testing.T) {
//		brokertest.Run(t, open, brokertest.Options{MinTTL: 2 * time.Second})
//	}
//
// Every rule is a subtest of its own, such as B30_subtree_delete_spares_siblings,
// and prints its sentence when it fails. Each works below a prefix of its own
// under /brokertest/, so that all of them may share one store, even at the same
// time and with other users.
//
// The rules run in real time against a real store, and in virtual time in a
// testing/synctest bubble. So they never sleep and hold no tight limits: what
// must not happen early has an exact bound, what must happen has half a minute.
//
// What they do not check: durability, and how a broker behaves while its store
// fails. Those are an adapter's own tests, because only it can kill its store.
package brokertest
