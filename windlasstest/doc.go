// Package windlasstest runs a cluster of Windlass nodes inside one test, in
// virtual time, so that an application can test its own handlers against what
// goes wrong: nodes that are killed, that hang, that are cut off from the
// broker, that drain. An hour of failures takes milliseconds.
//
//	windlasstest.Test(t, func(t *testing.T, c *windlasstest.Cluster) {
//		c.Start("a", config)
//		c.Start("b", config)
//		c.Submit(windlass.Submission{ID: "tenant-1"})
//		c.Settle(time.Minute)
//		c.Holder("tenant-1").Kill()
//		c.Settle(time.Minute) // on the other, once the session has expired
//	})
//
// The nodes are the real ones, and so is their protocol. The broker is the one
// in memory, which passes the same suite of rules as etcd's; Options.Open takes
// another.
//
// # What is checked without asking
//
// At the end of Test, that no task ever had two handlers at one moment, that
// every handler returns in the end, and that no node gave up. What else must hold
// is for the test to say: Cluster.Runs tells everything that ran, and Ledger
// stands for a database outside of Windlass that keeps progress and refuses the
// writes of old claims.
//
// # Time
//
// Test opens a testing/synctest bubble. In it, time stands still while any
// goroutine can do something, and leaps when none can. A handler that computes
// takes no time; time.Sleep, timers and contexts work as ever. Handlers must not
// wait for anything outside of the bubble: no network, no files that another
// process writes.
//
// # What it cannot do
//
// A goroutine cannot be killed or stopped from outside. A handler on a node that
// was killed is told so by its context, as if its process had been given one
// last moment; nothing that it does then reaches the broker or a Ledger. A
// handler on a node that is frozen goes on until its deadline.
//
// # How it fails
//
// A call that makes no sense, a node of a name in use or a condition that does
// not come true in time fails the test at once, with what is amiss and how the
// nodes are. Every test that fails also logs what happened to nodes and tasks,
// in order and with the time. Handlers that never return end the whole process
// with a panic that names them: neither the bubble nor the next test could go on.
package windlasstest
