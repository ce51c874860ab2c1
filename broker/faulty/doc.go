// Package faulty puts faults between Windlass and a broker, for tests. What goes
// wrong is a plan of rules that can be printed and read back, so that a failing
// test can say what it did and be run again:
//
//	seed 7
//	delay-request 40ms on commit chance 0.2
//	lose-reply 2s on commit below "/w/f/owners/" call 3
//	break on batch chance 0.01
//
// A rule names a fault and which calls it strikes: by operation, by key, the
// n-th of them, or some by chance. The chance of the n-th call that a rule fits
// depends on the seed, the rule and n alone, so other rules do not change it.
// Several rules may strike one call: delays add up, and of the faults that end a
// call the first in the plan counts.
//
//	engine -> faulty.Broker -> broker.Broker
//	             |  request: frozen? cut? delay, stall, lose, refuse, forbid, late
//	             |  reply:   delay, lose, frozen? cut?
//
// Besides the plan there are switches for one connection as a whole: Freeze
// holds every call, Cut fails it.
//
// Without rules and switches a Broker keeps the contract of package broker. With
// them it keeps all of it but liveness: what it does to a call, a network can do,
// or whoever grants rights. In particular an error tells the truth: Maybe is
// false only for what was never sent.
//
// What it does not do: change a value, reorder what a watch delivers, or lose an
// acknowledged write. No store that we support does that, and the engine is not
// built to survive it.
//
// How it fails: Wrap and Use panic on a rule that makes no sense, as it is the
// test's own mistake; Parse returns an *Error.
package faulty
