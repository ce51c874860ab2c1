// Package windlass distributes long-running tasks over the nodes of a cluster. Each task runs on exactly
// one node. Tasks are spread evenly, and they move when nodes join or leave. There is no master.
//
// A service imports this package, starts a [Node] in each of its replicas, and submits tasks with a
// [Client]:
//
//	node, err := windlass.NewNode(windlass.Config{Broker: store, Handlers: map[string]windlass.NewHandler{
//		"poll": windlass.HandlerFunc(func(ctx context.Context, c *windlass.Claim) error {
//			return poll(ctx, c.ID(), c.Props()) // until it is done, or ctx ends
//		}),
//	}})
//	client, err := windlass.NewClient(store, "")
//	err = client.Submit(ctx, windlass.Submission{ID: "device-7", Spec: windlass.Spec{Type: "poll"}})
//	err = node.Run(ctx) // claims tasks and runs them until ctx ends
//
// The nodes coordinate through a broker: etcd, a ZooKeeper ensemble or, within one process, a store in
// memory. Windlass has no server of its own.
//
// # Terms
//
//   - A task exists from its submission until it is done or deleted. A node claims it and its [Handler]
//     runs it. The handler's return value decides the task's next state.
//   - A claim is an ephemeral key in the broker. Its creation revision is the fencing token, which
//     rises with every claim; see [Claim.Token].
//   - A session is a node's lease in the broker. All of a node's claims belong to it. However many
//     tasks a node holds, while idle it sends only one renewal and one check of the other sessions
//     every few seconds.
//   - A [Balancer] decides what a node claims and what it gives back.
//
// # Guarantees
//
// Always: once a new claim of a task was granted, no write for an older claim that decides anything about
// the task (its state, result, progress or end) is applied.
//
// Two handlers of one task never run at the same moment if clocks run at about the same rate, timers fire
// within a fifteenth of the session's TTL (two seconds at most), nobody deletes sessions by hand, and
// handlers return soon after their context ended. A node that loses its connection stops its handlers
// before any other node can be granted their tasks. [Config.Fence] is for handlers that do not return.
// docs/internals/safety.md lists the assumptions.
//
// # What is not guaranteed
//
// A task runs at least once, not exactly once. If a node crashes after its handler did something and
// before that was recorded, the task runs again. No timer in this process helps against a process that was
// frozen and then runs on for an instant: pass the token to every system that the handler writes to.
//
// # Failures
//
// If the broker is unreachable, handlers keep running for about half of the session's TTL. They are then
// stopped, and the node rejoins once the broker is back. Nothing panics and nothing exits. Broker errors
// are those of package broker.
package windlass
