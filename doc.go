// Package windlass runs work on a fleet: every task on exactly one node, spread
// evenly, moved when nodes come and go, with no master.
//
// A service imports this package, starts a [Node] in each of its replicas, and
// submits tasks with a [Client]. The nodes meet in a broker, which is etcd, a
// ZooKeeper ensemble or, within one process, a store in memory. There is no
// server of our own.
//
//	Client --submit--> broker <--claim, release, done-- Node -- Handler, Handler, …
//	                     ^                              Node -- Handler, Handler, …
//	                     +---- session of each node     Node -- Handler, Handler, …
//
// # The words
//
//   - A task exists from its submission until it is done or deleted. A node
//     claims it, its [Handler] runs it, and what the handler returns decides
//     what becomes of it.
//   - A claim is an ephemeral key of the broker. Its creation revision is the
//     fencing token, which rises with every claim; see [Claim.Token].
//   - A session is a node's time on the broker. All of a node's claims hang on
//     it, so an idle node costs a renewal and a look at the others' every few
//     seconds, however many tasks it holds.
//   - A [Balancer] decides what a node claims and gives back.
//
// # What is guaranteed
//
// Always: no write that decides anything about a task (its state, result,
// progress, end) is applied for a claim after a new claim of that task was
// granted.
//
// As long as clocks run at about the same rate, timers fire within a fifteenth
// of the session's TTL (two seconds at most), nobody deletes sessions by hand,
// and a handler returns soon after its context ended: two handlers of one task
// never run at the same moment. A node that loses touch stops its handlers
// before anyone else can be granted their tasks. [Config.Fence] is for handlers
// that do not return. docs/safety.md has the assumptions.
//
// # What is not
//
// A task is run at least once, not exactly once: a node that crashes after its
// handler did something and before that was recorded will have the task run
// again. And no timer in this process helps against a process that was frozen
// and runs on for an instant: hand the token to whatever the handler writes to.
//
// # How it fails
//
// A broker that goes away ends nothing for about half of a session's TTL; then
// the handlers are stopped, and the node joins again when the broker is back.
// Nothing panics and nothing exits. Errors of the broker are package broker's.
package windlass
