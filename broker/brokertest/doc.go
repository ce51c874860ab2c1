// Package brokertest states what a broker must do, as numbered rules that run as tests.
// An adapter that passes them all can be used with Windlass; the engine relies on
// nothing that is not checked here.
//
//	func TestBroker(t *testing.T) {
//		brokertest.Run(t, open, brokertest.Options{MinTTL: 2 * time.Second})
//	}
//
// Every rule is a subtest, such as B30_subtree_delete_spares_siblings, and prints its
// sentence when it fails. Each works below its own prefix under /brokertest/, so all of
// them may share one store, even at the same time and with other users.
//
// The rules run in real time against a real store, and in virtual time in a
// testing/synctest bubble. So they never sleep and set no tight limits: an event that
// must not come early has an exact bound, and an event that must come has half a
// minute.
//
// They do not check durability, nor how a broker behaves while its store fails. An
// adapter needs its own tests for these, because only it can kill its store.
package brokertest
