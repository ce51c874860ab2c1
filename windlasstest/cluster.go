package windlasstest

import (
	"context"
	"fmt"
	"strings"
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

// Options are how a cluster is made. The zero value works.
type Options struct {
	// Open connects to the broker, once for each node and client. Nil means a
	// broker in memory. Whatever it needs must live in the same bubble.
	Open func() broker.Broker
	// SessionTTL is that of nodes whose configuration names none. Zero means
	// Windlass's default.
	SessionTTL time.Duration
	// AllowOverlaps leaves it to the test to judge two handlers of one task at
	// one moment.
	AllowOverlaps bool
}

// Cluster is some nodes on one broker. Its methods are for the test's own
// goroutine, those that say otherwise excepted.
type Cluster struct {
	t       *testing.T
	options Options
	store   *memory.Store // nil if the test brought its own broker
	client  *windlass.Client
	lines   []*faulty.Broker
	nodes   []*Node
	records records
	// running are the nodes, and the handlers, of nodes that were killed too.
	running sync.WaitGroup
	closed  sync.Once
}

// Test runs a test with a cluster in virtual time, and checks at its end that no
// task ever had two handlers at one moment.
func Test(t *testing.T, test func(t *testing.T, c *Cluster)) { TestWith(t, Options{}, test) }

// TestWith is Test with options.
func TestWith(t *testing.T, options Options, test func(t *testing.T, c *Cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := New(t, options)
		// Also when the test gave up: a bubble with goroutines left is a panic
		// that hides why.
		defer c.Close()
		test(t, c)
	})
}

// New makes a cluster without nodes, inside a bubble that exists. Close must be
// called in the same bubble.
func New(t *testing.T, options Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t, options: options}
	if options.Open == nil {
		c.store = memory.New()
		c.options.Open = func() broker.Broker { return c.store.Broker() }
	}
	client, err := windlass.NewClient(c.Connect(), Namespace)
	if err != nil {
		t.Fatal(err)
	}
	c.client = client
	return c
}

// Close heals everything, stops the nodes, waits until every handler has
// returned, and checks for overlaps unless the options allow them. Closing twice
// does nothing.
func (c *Cluster) Close() {
	c.closed.Do(func() {
		for _, line := range c.lines {
			line.Use(nil)
			line.Thaw()
			line.Heal()
		}
		for _, n := range c.nodes {
			if !n.killed.Load() {
				n.faults.Heal()
			}
			n.stop()
		}
		c.running.Wait()
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
	})
}

// Client is a client without faults.
func (c *Cluster) Client() *windlass.Client { return c.client }

// NewLedger makes a store outside of Windlass.
func (c *Cluster) NewLedger() *Ledger {
	return &Ledger{records: &c.records, entries: map[string]Entry{}}
}

// Connect opens one more connection to the broker, whose faults the test sets;
// the cluster closes it.
func (c *Cluster) Connect() *faulty.Broker {
	line := faulty.Wrap(c.options.Open(), nil)
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

// Advance lets time pass, and everything that is due by then happen.
func (c *Cluster) Advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// settleStep is how often a condition is looked at.
const settleStep = 50 * time.Millisecond

// WaitUntil lets time pass until a condition holds, and returns how long that
// took. It fails the test when it takes longer than within.
func (c *Cluster) WaitUntil(within time.Duration, what string, holds func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	synctest.Wait()
	for !holds() {
		if time.Since(start) >= within {
			c.t.Fatalf("not within %v: %s", within, what)
		}
		c.Advance(settleStep)
	}
	return time.Since(start)
}

// Settle lets time pass until every task that can run does, on exactly one node,
// and returns how long that took. Tasks that are done, sleep, are paused, wait
// for others or are not due are as they should be. It fails the test, naming
// what is amiss, when it takes longer than within.
func (c *Cluster) Settle(within time.Duration) time.Duration {
	c.t.Helper()
	start := time.Now()
	for {
		synctest.Wait()
		amiss, err := c.Unsettled(c.t.Context())
		if err != nil {
			c.t.Fatalf("settle: %v", err)
		}
		if len(amiss) == 0 {
			return time.Since(start)
		}
		if time.Since(start) >= within {
			c.t.Fatalf("not settled within %v: %s", within, strings.Join(amiss, "; "))
		}
		c.Advance(settleStep)
	}
}

// Unsettled says, for each task that is not as it should be after a while
// without faults, what is wrong; at most the first ten.
func (c *Cluster) Unsettled(ctx context.Context) (amiss []string, err error) {
	tasks, err := c.client.Tasks(ctx, windlass.Filter{})
	if err != nil {
		return nil, err
	}
	live := c.records.live()
	for _, task := range tasks {
		if what := unsettled(task, live[task.ID]); what != "" && len(amiss) < 10 {
			amiss = append(amiss, what)
		}
		delete(live, task.ID)
	}
	for id := range live {
		amiss = append(amiss, fmt.Sprintf("%q runs and does not exist", id))
	}
	return amiss, nil
}

// unsettled compares what the store says of a task with the runs of it that are
// going on.
func unsettled(task windlass.TaskInfo, live []Run) string {
	switch task.Status {
	case windlass.StatusRunning:
		if len(live) != 1 || live[0].Token != task.Token {
			return fmt.Sprintf("%q is held by %s with token %d and has the runs %v", task.ID, task.Node, task.Token, live)
		}
	case windlass.StatusPending:
		return fmt.Sprintf("%q is pending", task.ID)
	default:
		if len(live) > 0 {
			return fmt.Sprintf("%q is %s and has the runs %v", task.ID, task.Status, live)
		}
	}
	return ""
}
