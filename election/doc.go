// Package election elects a leader among the candidates of an election: the first in
// the queue leads, and knows when it no longer does.
//
//	member := election.New(Config{Broker, Namespace, Candidate})   one session
//	  member.Election("reports", Events{…})   one entry in the queue
//	  member.Election("billing", Events{…})   another
//	  member.Run(ctx)                         keeps the session alive
//
// A candidate's entry is a key that belongs to the member's session. The queue is in
// order of creation, and the revision at which an entry was created is the token of its
// future term: tokens rise from term to term.
//
//	foo (12)  <--watches-- bar (15)  <--watches-- quux (19)
//	  |
//	  '--watches itself
//
// A candidate lists the queue, watches the one entry just before its own, and lists
// again when that goes. A change of leader thus wakes one candidate, however many
// there are.
//
// # Guarantees
//
// A term begins only while the entry is the earliest, and while enough time is left of
// the session. It ends by the clock of this machine and needs no message from the
// network, before the broker could give up the session (see package session). Functions
// run by Lead do not overlap with those of the next leader, on any node, as long as
// they return within the session's grace. The entry is deleted only when the function
// has returned. An unreachable broker can end a term, but never the candidacy.
//
// # What is not guaranteed
//
// A process that was frozen runs for an instant before its timers do, and someone may
// delete an entry by hand: then two candidates may believe that they lead. Only the
// token helps there. Term.Holds is the condition under which to write, and
// Election.Commit adds it.
//
// A candidate that is third or later in the queue is not notified when the leader
// changes, or every candidate would be, unless it has set Events.Leader. CurrentLeader
// returns the leader that it last knew of; Leader reads anew, and Observe follows.
//
// # Failures
//
// Broker errors are events, followed by another attempt. Before the first session two
// errors end Run: a newer layout and a missing permission. A function that still leads
// at the hard deadline is reported to Config.Fence.
package election
