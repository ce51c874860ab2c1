// Package faulty injects faults between Windlass and a broker, for tests. A plan of
// rules defines the faults. It can be printed and parsed again, so that a failing test
// can report its faults and be repeated:
//
//	seed 7
//	delay-request 40ms on commit chance 0.2
//	lose-reply 2s on commit below "/w/f/owners/" call 3
//	break on batch chance 0.01
//
// A rule names a fault and the calls it applies to: by operation, by key, the n-th of
// them, or some by chance. The chance of the n-th matching call depends only on the
// seed, the rule and n, so other rules do not change it. Several rules may apply to one
// call: delays add up, and of the faults that end a call the first in the plan counts.
//
//	engine -> faulty.Broker -> broker.Broker
//	             |  request: frozen? cut? delay, stall, lose, refuse, forbid, late, reorder
//	             |  reply:   delay, lose, frozen? cut?
//
// In addition to the plan there are switches for a whole connection: Freeze holds every
// call, Cut fails it.
//
// Without rules and switches a Broker keeps the contract of package broker. With them
// it keeps all of it except liveness: its faults are those that a network, or whoever
// grants rights, can cause. In particular errors are truthful: Maybe is false only for
// a request that was never sent.
//
// It never changes a value, reorders what a watch delivers, or loses an acknowledged
// write. No supported store does that, and the engine is not built to survive it.
//
// Failures: Wrap and Use panic on an invalid rule, which is the test's own mistake;
// Parse returns an *Error.
package faulty
