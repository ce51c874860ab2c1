package windlasstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/clock"
)

// ErrKilled is the cause with which handlers end on a node that was killed. It exists
// only in tests: a killed process notifies nobody.
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

	mu sync.Mutex // also orders Cut and Heal, so that the dead stay dead
	// dead is how its process ended, "killed" or "stopped"; empty while it lives.
	dead                string
	frozen, partitioned bool
}

// Start starts a node with a name that no live node has, unless that one is frozen or
// partitioned: as after a process of which its supervisor has lost sight. The cluster sets
// Namespace and Name of the configuration, and Broker and Clock if there is none.
func (c *Cluster) Start(name string, config windlass.Config) *Node {
	c.t.Helper()
	for _, other := range c.nodes {
		if other.Name() == name && other.lives() && other.trouble() == "" {
			c.t.Fatalf("start node %s: one of that name lives; Kill or Stop it before", name)
		}
	}
	n := &Node{cluster: c, config: config, ended: make(chan struct{})}
	if config.Broker == nil {
		config.Broker = c.options.Open()
	}
	n.faults = c.connect(config.Broker)
	config.Broker, config.Namespace, config.Name = n.faults, Namespace, name
	if config.Clock == nil {
		config.Clock = clock.Process
	}
	if config.SessionTTL == 0 {
		config.SessionTTL = c.options.SessionTTL
	}
	if config.Fence == nil && c.options.Fence {
		config.Fence = func(func() []string) { n.Kill() }
	}
	config.Handlers = n.recorded(config.Handlers)
	config.Events = n.noted(name, config.Events)
	node, err := windlass.NewNode(config)
	if err != nil {
		c.t.Fatal(err)
	}
	n.Node = node
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	c.journal.note(name, "starts")
	c.running.Go(func() {
		defer close(n.ended)
		n.err = node.Run(ctx)
	})
	c.nodes = append(c.nodes, n)
	return n
}

// note adds a line to the journal, unless the node is dead: nobody would see it.
func (n *Node) note(name, format string, args ...any) {
	if !n.Killed() {
		n.cluster.journal.note(name, format, args...)
	}
}

// noted adds the events that explain a failing test to the journal.
func (n *Node) noted(name string, told events.Node) events.Node {
	note := func(format string, args ...any) { n.note(name, format, args...) }
	waitingFor := "" // noted once, not at every attempt
	told.Joined = after(func() {
		waitingFor = ""
		note("has joined")
	}, told.Joined)
	left, waiting := told.Left, told.Waiting
	told.Left = func(incarnation string, cause error, abandoned []string) {
		switch {
		case len(abandoned) > 0:
			note("leaves the handlers of %q behind (%v)", abandoned, cause)
		case cause != nil:
			note("has left (%v)", cause)
		default:
			note("has left")
		}
		if left != nil {
			left(incarnation, cause, abandoned)
		}
	}
	told.Waiting = func(cause error) {
		if text := fmt.Sprint(cause); text != waitingFor {
			waitingFor = text
			note("waits to join (%s)", text)
		}
		if waiting != nil {
			waiting(cause)
		}
	}
	return told
}

// after makes an event, which may be nil, happen after something else.
func after[A, B any](first func(), event func(A, B)) func(A, B) {
	return func(a A, b B) {
		first()
		if event != nil {
			event(a, b)
		}
	}
}

// Kill ends the node as kill -9 ends a process: nothing that it does from now on
// reaches the broker or a ledger, and its session is left to expire. Its runs end now;
// the contexts of their handlers end with ErrKilled. Kill may be called from any
// goroutine, and from Config.Fence.
func (n *Node) Kill() {
	if n.die("killed") {
		n.cluster.journal.note(n.Name(), "is killed")
	}
}

// die ends the process of the node, and reports whether it was alive.
func (n *Node) die(how string) bool {
	n.mu.Lock()
	lived := n.dead == ""
	if lived {
		n.dead = how
		n.faults.Cut()
	}
	n.mu.Unlock()
	if lived {
		n.cluster.records.killed(n) // before the contexts of handlers end with another cause
		n.stop()
	}
	return lived
}

// Killed reports whether the node was killed, or has stopped: a process that has exited
// runs nothing either.
func (n *Node) Killed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dead != ""
}

// Freeze lets nothing through between the node and the broker, in either direction and
// without an error, like a network that drops packets. What is in transit arrives after
// Thaw. It is unrelated to the embedded node's Frozen, which reports that the node was
// told to claim nothing.
func (n *Node) Freeze() { n.set(&n.frozen, true, "is frozen", n.faults.Freeze) }

// Thaw ends Freeze.
func (n *Node) Thaw() { n.set(&n.frozen, false, "is thawed", n.faults.Thaw) }

// Partition fails every call of the node to the broker at once, like a network that
// refuses connections.
func (n *Node) Partition() { n.set(&n.partitioned, true, "is partitioned", n.faults.Cut) }

// Heal ends Partition. A node that was killed stays dead.
func (n *Node) Heal() { n.set(&n.partitioned, false, "is healed", n.faults.Heal) }

// set switches a fault of a live node.
func (n *Node) set(fault *bool, on bool, what string, do func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.dead != "" {
		return
	}
	if *fault != on {
		n.cluster.journal.note(n.Name(), "%s", what)
	}
	*fault = on
	do()
}

// Use applies a plan of faults, in the language of package broker/faulty, to the node's
// calls; an empty plan ends them. It fails the test if the plan is invalid.
func (n *Node) Use(plan string) {
	n.cluster.t.Helper()
	p, err := faulty.Parse(plan)
	if err != nil {
		n.cluster.t.Fatal(err)
	}
	n.cluster.journal.note(n.Name(), "has the faults %q", plan)
	n.faults.Use(p)
}

// Faults returns the node's connection to the broker. Settle does not know of faults
// that are set there.
func (n *Node) Faults() *faulty.Broker { return n.faults }

// Drain is that of the embedded node: it gives back what the node holds and returns
// when nothing is left, or when ctx is done. The node keeps running and takes nothing.
func (n *Node) Drain(ctx context.Context) error {
	n.cluster.journal.note(n.Name(), "is drained")
	err := n.Node.Drain(ctx)
	if errors.Is(err, windlass.ErrNotRunning) { // it has just been started
		time.Sleep(time.Millisecond)
		err = n.Node.Drain(ctx)
	}
	return err
}

// Stop ends the node as SIGTERM ends a service, waits for it, and returns what Run
// returned. The process then exits, and late handlers end with it.
func (n *Node) Stop() error {
	n.note(n.Name(), "is told to stop")
	n.stop()
	<-n.ended
	if n.die("stopped") {
		n.cluster.journal.note(n.Name(), "has stopped")
	}
	return n.err
}

// Over returns the error that Run returned, and nil while Run continues.
func (n *Node) Over() error {
	if n.hasEnded() {
		return n.err
	}
	return nil
}

// Restart starts a node with the same name and configuration, as a supervisor does with
// a process that has ended or was killed. If the node is alive, it fails the test.
func (n *Node) Restart() *Node {
	n.cluster.t.Helper()
	return n.cluster.Start(n.Name(), n.config)
}

// hasEnded reports whether Run has returned.
func (n *Node) hasEnded() bool {
	select {
	case <-n.ended:
		return true
	default:
		return false
	}
}

func (n *Node) lives() bool { return !n.Killed() && !n.hasEnded() }

// handles reports whether the node is alive and has a handler for a type.
func (n *Node) handles(taskType string) bool {
	return n.lives() && (n.config.Handlers[taskType] != nil || n.config.Handlers[windlass.AnyType] != nil)
}

// trouble returns what separates the node from the broker, empty if nothing does.
func (n *Node) trouble() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.dead != "":
		return n.dead
	case n.partitioned:
		return "partitioned"
	case n.frozen:
		return "frozen"
	}
	return ""
}
