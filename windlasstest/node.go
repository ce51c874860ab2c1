package windlasstest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/internal/clock"
)

// ErrKilled is the cause with which handlers end on a node that was killed.
// Nothing like it exists outside of tests: a process that is killed tells
// nobody.
var ErrKilled = errors.New("the process was killed")

// Node is a node of a cluster, as if it were a process of its own.
type Node struct {
	*windlass.Node
	cluster *Cluster
	config  windlass.Config
	faults  *faulty.Broker
	stop    context.CancelFunc
	ended   chan struct{}
	err     error // set before ended is closed
	killed  atomic.Bool
	// death ends when the node is killed; the contexts of handlers do too.
	death context.Context
	kill  context.CancelCauseFunc
}

// Start starts a node. Broker, Namespace and Name of the configuration are set
// by the cluster, and the clock where there is none.
func (c *Cluster) Start(name string, config windlass.Config) *Node {
	c.t.Helper()
	n := &Node{cluster: c, config: config, ended: make(chan struct{})}
	n.death, n.kill = context.WithCancelCause(context.Background())
	n.faults = c.Connect()
	config.Broker, config.Namespace, config.Name = n.faults, Namespace, name
	if config.Clock == nil {
		config.Clock = clock.Process
	}
	if config.SessionTTL == 0 {
		config.SessionTTL = c.options.SessionTTL
	}
	config.Handlers = n.recorded(config.Handlers)
	node, err := windlass.NewNode(config)
	if err != nil {
		c.t.Fatal(err)
	}
	n.Node = node
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	c.running.Go(func() {
		defer close(n.ended)
		n.err = node.Run(ctx)
	})
	c.nodes = append(c.nodes, n)
	return n
}

// recorded makes handlers keep a record of their runs.
func (n *Node) recorded(handlers map[string]windlass.NewHandler) map[string]windlass.NewHandler {
	if handlers == nil {
		return nil // for NewNode to refuse
	}
	wrapped := make(map[string]windlass.NewHandler, len(handlers))
	for name, plain := range handlers {
		if plain != nil {
			wrapped[name] = func(task windlass.Task) windlass.Handler {
				return &recordedHandler{node: n, plain: plain(task)}
			}
		}
	}
	return wrapped
}

// recordedHandler is the application's handler with a record of its run.
type recordedHandler struct {
	node  *Node
	plain windlass.Handler
}

// Run implements windlass.Handler.
func (h *recordedHandler) Run(ctx context.Context, claim *windlass.Claim) (err error) {
	h.node.cluster.running.Add(1) // while its node's Run counts, or is about to leave it behind
	defer h.node.cluster.running.Done()
	records := &h.node.cluster.records
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.node.death, func() { cancel(ErrKilled) })()
	run := records.began(h.node, claim)
	// Also after a panic, whose value goes on to the node.
	defer func() { records.ended(run, err, context.Cause(ctx)) }()
	return h.plain.Run(ctx, claim)
}

// Kill ends the node as kill -9 ends a process: nothing that it does from now on
// reaches the broker, and its session is left to expire. Its runs end now; the
// contexts of their handlers end with ErrKilled. It may be called from anywhere,
// Config.Fence included.
func (n *Node) Kill() {
	if n.killed.Swap(true) {
		return
	}
	n.faults.Cut()
	n.cluster.records.killed(n)
	n.kill(ErrKilled)
	n.stop()
}

// Killed tells whether the node was killed.
func (n *Node) Killed() bool { return n.killed.Load() }

// Freeze lets nothing through between the node and the broker, in neither
// direction, without an error, as a network does that drops packets; what is
// under way arrives after Thaw.
func (n *Node) Freeze() { n.faults.Freeze() }

// Thaw ends Freeze.
func (n *Node) Thaw() { n.faults.Thaw() }

// Partition fails every call of the node to the broker at once, as a network
// does that refuses connections.
func (n *Node) Partition() { n.faults.Cut() }

// Heal ends Partition. A node that was killed stays dead.
func (n *Node) Heal() {
	if !n.killed.Load() {
		n.faults.Heal()
	}
}

// Use makes a plan of faults, in the language of package broker/faulty, strike
// the node's calls; an empty one ends it. It fails the test if the plan makes no
// sense.
func (n *Node) Use(plan string) {
	n.cluster.t.Helper()
	p, err := faulty.Parse(plan)
	if err != nil {
		n.cluster.t.Fatal(err)
	}
	n.faults.Use(p)
}

// Faults is the node's connection to the broker.
func (n *Node) Faults() *faulty.Broker { return n.faults }

// Stop ends the node as SIGTERM ends a service, waits for it, and returns what
// Run returned. Then the process exits, and with it handlers that are late.
func (n *Node) Stop() error {
	n.stop()
	<-n.ended
	n.Kill()
	return n.err
}

// Over returns what Run returned if it has returned an error, and nil while it
// goes on.
func (n *Node) Over() error {
	select {
	case <-n.ended:
		return n.err
	default:
		return nil
	}
}

// Restart starts a node of the same name and configuration, as a supervisor does
// with a process that has ended or was killed.
func (n *Node) Restart() *Node {
	n.cluster.t.Helper()
	return n.cluster.Start(n.Name(), n.config)
}
