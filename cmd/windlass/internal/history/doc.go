// Package history checks everything that was ever written below a namespace. It replays
// the store's own event log in order, from its first revision on, and trusts no node's
// own account.
//
// The invariants, by the numbers used in the tests and the documentation:
//
//	I1   one grant at a time: a task's owner key is created only while there is none
//	I2   a state is written only by the claim that is live at that revision, of
//	     the task that it claimed, and no older one of that claim after a newer
//	I4   the tokens of a task rise
//	I5   a task disappears only with its final state, or because a client deleted it
//	I6   a task that has ended stays so until it is submitted again, and a task that
//	     does not exist is not claimed
//	I7   states follow each other as the transition table allows
//	I8   no task is claimed while one that it waits for exists
//	I10  a leader's writes are made in the term of the earliest entry at that
//	     revision, and an entry stays its session's
//	I12  an owner key is deleted only with its session, by its own claim's ending, or
//	     by an operator
//	Z11  a failure is not forgotten while a task waits for it
//	M06  the data of a newer version, in a value or below a task, is kept
//	M55  being told to stop is no error of a task
//	O09  a task is paused with its type only if that is paused, or was until just now
//	O01  a node with a cordon is granted nothing, once it must have learned of it
//	M04  a node's registration is not taken over while its session is alive
//
// The log does not show everything, so the caller announces the rest: the endings that
// nodes asked for, the tasks that clients deleted, and the changes of an operator.
//
// Log is not safe for concurrent use except for Ending, Deleting, Unblocking and
// ByHand, which must be called before the write that they announce is sent.
package history
