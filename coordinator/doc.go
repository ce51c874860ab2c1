// Package coordinator makes, resolves and ends claims: the transactions by which a
// task gets its one owner and by which everything is written in the owner's
// name.
//
//	Claim   if   the task exists, nobody owns it, no blocker exists or has failed
//	        then create its owner key with the session; read spec, props, state
//	End     if   the owner key is still the one created at the token
//	        then write the state, give the claim back, or remove the task
//
// The token of a claim is the revision at which its owner key was created. It
// is the fence: whatever a run writes is conditional on it, but for its history,
// which decides nothing. So nothing that an old run sends, however late it
// arrives, is applied after a new claim was granted.
//
// A lost reply is not a lost claim. When the outcome of a claim is unknown it
// is read back; an owner key is recognised as one's own by its session, never
// by a name. Because a request may be applied even after that, a node also
// watches its own owner keys and adopts what turns up late (Adopt). When the
// outcome of an ending is unknown the same conditional transaction is to be sent
// again, until it is answered: it can take effect only once.
package coordinator
