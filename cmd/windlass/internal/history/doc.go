// Package history checks everything that was ever written below a namespace: it replays
// the store's own event log in order, from its first revision on. It trusts no node's
// view of what it did.
//
// The invariants, by the numbers used in the tests and the documentation:
//
//	I1   one grant at a time: a task's owner key is created only while there is none
//	I2   a state is written only by the claim that is live at that revision, of
//	     the task that it claimed, and no older one of that claim after a newer
//	I4   the tokens of a task rise
//	I5   a task disappears only with its final state, or because a client deleted it
//	I6   what has ended stays so, until it is submitted afresh, and nothing is
//	     claimed that does not exist
//	I7   states follow each other as the transition table allows
//	I8   no task is claimed while one that it waits for exists
//	I10  what only the leader of an election writes is written in the term of the
//	     earliest entry at that revision, and an entry stays its session's
//	I12  an owner key goes with its session, with its own claim's ending or by an
//	     operator's hand, and not otherwise
//	Z11  what failed is not forgotten while a task waits for it
//	M06  what a newer version wrote into a value or below a task stays there
//	M55  being told to stop counts as no error of a task
//	O01  a node with a cordon is granted nothing, once it must have heard of that
//	M04  a node's registration is not taken over while its session lives
//
// The log does not show everything, so the caller adds the rest: which endings nodes
// asked for, what clients deleted, and what an operator did by hand.
//
// Log is not safe for concurrent use except for Ending, Deleting, Unblocking and
// ByHand, which must be called before the write that they announce is sent.
package history
