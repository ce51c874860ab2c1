// Package doctor finds what is wrong with a namespace and with the ground it
// stands on, and mends what can be mended without a decision.
//
//	one listing at one revision --> snapshot --> findings --> Check, a line each
//	                                    |
//	                                    +--> Fix: transactions, each guarded
//
// What is found in one snapshot is a defect only if no healthy cluster can be in
// that state between two steps. Two things can look wrong for a while: a claim
// whose node is gone goes with its session, and a task that was just submitted is
// claimed in a moment. Where one of these is seen, and only there, Namespace
// looks a second time, a session's TTL or a few seconds later, and reports what
// is still the same.
//
// # What Fix does
//
// An owner key without a session is deleted if it is still that key. What is left
// of a task whose state is terminal is deleted if the state has not changed and
// nobody holds the task. The record of a claim that nobody holds, and that no
// session will remove, is deleted if that is still so. A change that comes in
// between wins, and Fix says that it left the key alone. It never touches a value
// that cannot be read, a key that it does not know, or a namespace of a newer
// layout.
//
// # What it does not
//
// It knows the keys of the layout and nothing of the broker behind; how the
// members of a cluster are is found out by the command line, which knows the
// adapter. It cannot tell why an application leaves a task alone.
package doctor
