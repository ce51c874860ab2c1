// Package coordinator makes, resolves and ends claims. Its transactions give a task its
// single owner and write everything in the owner's name.
//
//	Claim   if   the task exists, nobody owns it, no blocker exists or has failed
//	        then create its owner key with the session; read spec, props, state
//	End     if   the owner key is still the one created at the token
//	        then write the state, give the claim back, or remove the task
//
// The token of a claim is the revision at which its owner key was created. It is the
// fencing token: every write of a run is conditional on it, except the history, which
// decides nothing. So once a new claim was granted, nothing that an old run sends is
// applied, however late it arrives.
//
// A lost reply is not a lost claim. If the outcome of a claim is unknown, it is read
// back; a node recognises its own owner key by its session, never by a name. Because a
// request may be applied even after that, a node also watches its own owner keys and
// adopts claims that turn up late (Adopt). If the outcome of an ending is unknown, the
// same conditional transaction is sent again until it is answered: it can take effect
// only once.
package coordinator
