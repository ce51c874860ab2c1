// Package doctor finds defects in a namespace and in its environment, and repairs those
// that can be repaired without a decision.
//
//	one listing at one revision --> snapshot --> findings --> Check, a line each
//	                                    |
//	                                    +--> Fix: transactions, each guarded
//
// A finding in one snapshot is a defect only if no healthy cluster can be in that state
// between two steps. Two things can look wrong for a while: a claim whose node is gone
// is deleted with its session, and a task that was just submitted is claimed in a
// moment. If Namespace sees one of these, and only then, it looks a second time, a
// session's TTL or a few seconds later, and reports what is still the same.
//
// # What Fix does
//
// It deletes an owner key without a session if it is still that key. It deletes what is
// left of a task in a terminal state if the state has not changed and no node holds the
// task. It deletes the record of a claim that no node holds and no session will remove,
// if that is still so. A concurrent change wins, and Fix reports that it left the key
// alone. It never touches a value that cannot be read, a key that it does not know, or
// a namespace of a newer layout.
//
// # What it does not do
//
// It knows the keys of the layout but not the broker behind them. The command line,
// which knows the adapter, checks the members of a cluster. Doctor cannot say why an
// application leaves a task alone.
package doctor
