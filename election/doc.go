// Package election elects a leader among the candidates of a name: the first in
// line leads, and knows when it no longer does.
//
//	member := election.New(Config{Broker, Namespace, Candidate})   one session
//	  member.Election("reports", Events{…})   one entry in line
//	  member.Election("billing", Events{…})   another
//	  member.Run(ctx)                         keeps the session alive
//
// A candidate's entry is a key that lives with the member's session. The order
// is that of creation, and the revision at which an entry was created is the
// token of the term that it will have: tokens rise from term to term.
//
//	foo (12)  <--watches-- bar (15)  <--watches-- quux (19)
//	  |
//	  '--watches itself
//
// A candidate lists the line, watches the one entry just before its own, and lists
// again when that goes. A change of leader thus wakes one candidate, however many
// there are.
//
// # What is guaranteed
//
// A term begins only while the entry is the earliest, and while enough is left of
// the session. It ends, by the clock of this machine and without a word from the
// network, before the broker could give the session up (see package session):
// functions run by Lead do not overlap with those of the next leader, wherever
// that one is, as long as they return within the session's grace. The entry is
// deleted only when the function has returned. A broker that is away ends a term
// when it must, but never the candidacy.
//
// # What is not
//
// A process that was frozen runs for an instant before its timers do, and someone
// may delete an entry by hand: then two may believe that they lead. Only the token
// helps there. Term.Holds is the condition that a write is made under, and
// Election.Commit adds it.
//
// A candidate that is third or later in line is not told when the leader changes,
// or everyone would be. CurrentLeader is what it knew last; Leader reads anew, and
// Observe follows.
//
// # How it fails
//
// Errors of the broker are events, followed by another attempt; before the first
// session two of them end Run, a newer layout and a missing right. A function that
// still leads at the hard deadline is reported to Config.Fence.
package election
