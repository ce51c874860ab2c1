// Package session keeps one session of a broker alive, and knows when it can no
// longer be trusted. It is the one safety timer of Windlass, above all
// adapters: claims, registrations and candidacies hang on a session, and what
// they permit ends when the session's deadline passes here, before it can
// expire there.
//
//	renewal sent                stop          hard     the broker may
//	     |                       |              |      expire it
//	     v                       v              v          v
//	-----+-----------------------+--------------+----------+----> time
//	     |<------------------ TTL · (1-drift) ------------>|
//	                             |<--- grace -->|<- slack->|
//
// The deadline counts from the moment before the last successful renewal was
// sent, never from its reply: the broker cannot have processed it earlier.
// That it keeps the session for one TTL from then is assumed, see below. The TTL
// is the one that the broker granted. Time is kept by two clocks, and what passed is
// what the one says that says more: the first runs through a suspension of the
// machine on Linux and macOS, the second is the time of day, which alone tells of
// the time for which a host stopped a virtual machine.
//
// At the stop deadline the session's context ends, and with it the context of
// every handler. At the hard deadline what has not returned is reported, once.
// Both are enforced by a goroutine that does nothing else: it takes no lock
// that is held during I/O and needs no answer from anyone.
//
// # What is guaranteed
//
// Under the assumptions that clocks drift apart less than Timing.Drift, that
// timers fire within Timing.Slack and that the broker does not expire a session
// before its TTL, whatever stops by the hard deadline has stopped before anyone
// else can be granted the same key.
//
// # What is not
//
// A machine that its host stopped goes on with what it did until its time of day is
// set or a renewal is answered.
//
// A process that was frozen and thawed runs for an instant before its timers
// do. Nothing in this process can prevent that; only the fencing token can,
// which every write carries, and a supervisor in another process.
//
// # How it ends
//
// A session ends once: because its owner closed it, because a renewal said that
// it is gone, because the deadline passed, or because its owner found out
// otherwise (End). It never comes back; a new one is a new incarnation.
package session
