// Package session keeps one broker session alive, and knows when it can no longer be
// trusted. It is the only safety timer of Windlass, shared by all adapters. Claims,
// registrations and candidacies belong to a session. What they permit ends when the
// session's deadline passes here, before the session can expire in the broker.
//
//	renewal sent                stop          hard     the broker may
//	     |                       |              |      expire it
//	     v                       v              v          v
//	-----+-----------------------+--------------+----------+----> time
//	     |<------------------ TTL · (1-drift) ------------>|
//	                             |<--- grace -->|<- slack->|
//
// The deadline counts from the moment before the last successful renewal was sent,
// never from its reply: the broker cannot have processed it earlier. That the broker
// keeps the session for one TTL from then is an assumption, see below. The TTL is the
// one that the broker granted.
//
// Two clocks measure the elapsed time, and the larger value counts. The first runs
// through a suspension of the machine on Linux and macOS. The second is the time of
// day, which alone shows the time for which a host stopped a virtual machine.
//
// At the stop deadline the session's context ends, and with it the context of every
// handler. At the hard deadline the handlers that have not returned are reported, once.
// A goroutine that does nothing else enforces both: it takes no lock that is held
// during I/O and needs no answer from anyone.
//
// # Guarantees
//
// Under the assumptions that clocks drift apart less than Timing.Drift, that timers
// fire within Timing.Slack and that the broker does not expire a session before its
// TTL, whatever stops by the hard deadline has stopped before anyone else can be
// granted the same key.
//
// # What is not guaranteed
//
// A machine that its host stopped continues its work until its time of day is set or a
// renewal is answered.
//
// A process that was frozen and thawed runs for an instant before its timers do.
// Nothing in this process can prevent that; only the fencing token, which every write
// carries, and a supervisor in another process can.
//
// # How a session ends
//
// A session ends once: because its owner closed it, because a renewal said that it is
// gone, because the deadline passed, or because its owner found out otherwise (End). It
// never comes back; a new one is a new incarnation.
package session
