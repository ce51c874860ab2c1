// Package windlasstest runs a cluster of Windlass nodes inside one test, in virtual
// time. An application can test its own handlers against failures: nodes that are
// killed, that hang, that are cut off from the broker, that drain. An hour of failures
// takes milliseconds.
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
// The nodes and their protocol are the real ones. The broker is the one in memory,
// which passes the same suite of rules as etcd's; Options.Open sets another.
//
// # Automatic checks
//
// At the end, Test checks that no task ever had two handlers at one moment, that every
// handler returned in the end, and that no node gave up. The test checks everything
// else: Cluster.Runs returns all runs, and Ledger stands for a database outside of
// Windlass that keeps progress and refuses the writes of old claims.
//
// # Time
//
// Test opens a testing/synctest bubble. Time in it stands still while any goroutine can
// do something, and jumps ahead when none can. A handler that computes takes no time;
// time.Sleep, timers and contexts work as usual. Handlers must not wait for anything
// outside of the bubble: no network, no files that another process writes.
//
// # What it cannot do
//
// A goroutine cannot be killed or stopped from outside. The context of a handler on a
// killed node ends, as if its process had one last moment; nothing that the handler
// does then reaches the broker or a Ledger. A handler on a frozen node continues until
// its deadline.
//
// # Failures
//
// An invalid call, a node with a name in use or a condition that does not come true in
// time fails the test at once, with the problem and the condition of the nodes. Every
// test that fails also logs what happened to nodes and tasks, in order and with the
// time. Handlers that never return end the whole process with a panic that names them:
// neither the bubble nor the next test could continue.
package windlasstest
