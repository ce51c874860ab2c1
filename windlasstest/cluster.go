package windlasstest

import (
	"fmt"
	"runtime/debug"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/broker/memory"
)

// Namespace is the namespace of every cluster.
const Namespace = "test"

// Options configures a cluster. The zero value works.
type Options struct {
	// Open connects to the broker, once for each node and client. Nil means a broker in
	// memory. Everything it needs must live in the same bubble.
	Open func() broker.Broker
	// Sleep lets a duration pass and everything happen that is due then, for a cluster
	// outside of a bubble, whose broker and time are real. Nil means the virtual time of
	// the bubble that the cluster is in.
	Sleep func(time.Duration)
	// SessionTTL is the TTL of nodes whose configuration sets none. Zero means
	// Windlass's default.
	SessionTTL time.Duration
	// AllowOverlaps leaves it to the test to judge two handlers of one task at one
	// moment.
	AllowOverlaps bool
	// Fence kills a node whose handlers are overdue, like a service whose Config.Fence
	// ends its process. Without it the handlers are left behind. A node whose own
	// configuration has a Fence keeps that.
	Fence bool
}

// Cluster is a number of nodes on one broker. Its methods are for the test's own
// goroutine, unless they say otherwise.
type Cluster struct {
	t       testing.TB
	options Options
	store   *memory.Store // nil if the test brought its own broker
	client  *windlass.Client
	lines   []*faulty.Broker
	nodes   []*Node
	records records
	journal journal
	// running counts the nodes. Handlers are not in it: one that its node has abandoned
	// could be added while Close waits.
	running sync.WaitGroup
	closed  bool
}

// Test runs a test with a cluster in virtual time, and checks at its end that no task
// ever had two handlers at one moment. If the test fails, for whatever reason, its log
// shows what happened to the nodes and tasks, and when.
func Test(t *testing.T, test func(t *testing.T, c *Cluster)) {
	t.Helper()
	TestWith(t, Options{}, test)
}

// TestWith is like Test with options.
func TestWith(t *testing.T, options Options, test func(t *testing.T, c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := New(t, options)
		// Before the test's own Cleanup functions: handlers may use until they
		// return what those take away.
		defer c.Close()
		test(t, c)
	})
}

// New returns a cluster without nodes, inside an existing bubble, for the test of that
// bubble; with Options.Sleep in any test. It is closed at the end of the test.
func New(t testing.TB, options Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t, options: options}
	// Also when the test gives up: a bubble with goroutines left is a panic that
	// hides why.
	t.Cleanup(c.Close)
	if options.Open == nil {
		c.store = memory.New()
		c.options.Open = func() broker.Broker { return c.store.Broker() }
	}
	if options.Sleep == nil {
		c.options.Sleep = func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
	}
	client, err := windlass.NewClient(c.Connect(), Namespace)
	if err != nil {
		t.Fatal(err)
	}
	c.client = client
	return c
}

// Close heals everything, stops the nodes and waits until every handler has returned.
// It checks that no node had ended by itself and, unless the options allow them, that
// there were no overlaps. Closing twice does nothing.
func (c *Cluster) Close() {
	c.t.Helper()
	if c.closed {
		return
	}
	c.closed = true
	c.journal.note("", "the test is over, everything is healed and stopped")
	c.heal()
	for _, n := range c.nodes {
		if n.hasEnded() && !n.Killed() {
			c.t.Errorf("node %s ended by itself: %v", n.Name(), n.err)
		}
		n.stop()
	}
	c.running.Wait()
	c.awaitHandlers()
	for _, line := range c.lines {
		if err := line.Close(); err != nil { // waits for requests that are late
			c.t.Errorf("closing a connection: %v", err)
		}
	}
	if c.store != nil {
		if err := c.store.Close(); err != nil {
			c.t.Errorf("closing the broker: %v", err)
		}
	}
	if !c.options.AllowOverlaps {
		c.AssertNoOverlap()
	}
	if c.t.Failed() {
		c.t.Logf("what happened:\n%v", &c.journal)
	}
}

// heal ends all faults of nodes that are not dead.
func (c *Cluster) heal() {
	dead := map[*faulty.Broker]bool{}
	for _, n := range c.nodes {
		dead[n.faults] = n.Killed()
	}
	for _, line := range c.lines {
		line.Use(nil)
		line.Thaw()
		if !dead[line] {
			line.Heal()
		}
	}
}

// closeMax limits how long Close waits for handlers that were told to stop.
const closeMax = time.Hour

// awaitHandlers waits for the handlers that their nodes have abandoned.
func (c *Cluster) awaitHandlers() {
	for start := time.Now(); ; {
		c.Advance(0) // until handlers that have just started are recorded
		left := c.records.working()
		if len(left) == 0 {
			return
		}
		if time.Since(start) > closeMax {
			// The bubble cannot end while a goroutine stays: it would panic with less
			// information, or loop for ever.
			debug.SetTraceback("all") // to show where they are
			panic(fmt.Sprintf("windlasstest: %v after the cluster was closed these handlers have not returned: %v\nwhat happened:\n%v",
				closeMax, left, &c.journal))
		}
		c.Advance(time.Second)
	}
}

// Client returns a client without faults.
func (c *Cluster) Client() *windlass.Client { return c.client }

// NewLedger returns a store outside of Windlass.
func (c *Cluster) NewLedger() *Ledger {
	return &Ledger{records: &c.records, journal: &c.journal, entries: map[string]Entry{}}
}

// Connect opens one more connection to the broker, whose faults the test sets; the
// cluster closes it.
func (c *Cluster) Connect() *faulty.Broker { return c.connect(c.options.Open()) }

// connect wraps a connection with faults.
func (c *Cluster) connect(plain broker.Broker) *faulty.Broker {
	line := faulty.Wrap(plain, nil)
	c.lines = append(c.lines, line)
	return line
}

// Submit submits tasks, and fails the test if one is refused.
func (c *Cluster) Submit(submissions ...windlass.Submission) {
	c.t.Helper()
	for i, err := range c.client.SubmitAll(c.t.Context(), submissions) {
		if err != nil {
			c.t.Fatalf("submit %q: %v", submissions[i].ID, err)
		}
	}
}

// Advance lets time pass, so that everything due by then happens.
func (c *Cluster) Advance(d time.Duration) { c.options.Sleep(d) }
