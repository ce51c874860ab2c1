package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/zksuite"
	"github.com/windlass-go/windlass/windlasstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a cluster of windlasstest, and what many tests ask of it.
type cluster struct {
	*windlasstest.Cluster
	t      *testing.T
	server *embedded.Server // nil on another broker
	client *windlass.Client
	store  broker.Broker
	open   func() broker.Broker
	// takes says how long the default handler runs; zero means until it is stopped.
	takes func(id string) time.Duration
	// mu guards what a test shares with its handlers.
	mu sync.Mutex
}

// runIn runs a test with a cluster on a broker.
func runIn(t *testing.T, options windlasstest.Options, test func(t *testing.T, c *cluster)) {
	plain := windlasstest.New(t, options)
	// Before the broker is closed, and before the test's own Cleanup functions.
	defer plain.Close()
	test(t, &cluster{
		Cluster: plain, t: t, client: plain.Client(), store: plain.Connect(), open: options.Open, takes: func(string) time.Duration { return 0 },
	})
}

// inEach runs a test twice, in virtual time: on an etcd without a listener, and on the
// broker in memory. Instead it runs it once, in real time, where there is a ZooKeeper.
func inEach(t *testing.T, test func(t *testing.T, c *cluster)) {
	if zksuite.On() {
		zksuite.Parallel(t)
		onZooKeeper(t, test)
		return
	}
	t.Run("etcd", func(t *testing.T) { inCluster(t, test) })
	t.Run("memory", func(t *testing.T) { inMemory(t, test) })
}

func inMemory(t *testing.T, test func(t *testing.T, c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer closed(t, store)
		runIn(t, windlasstest.Options{Open: func() broker.Broker { return store.Broker() }}, test)
	})
}

func onZooKeeper(t *testing.T, test func(t *testing.T, c *cluster)) {
	runIn(t, windlasstest.Options{Open: zksuite.Connect(t), Sleep: func(d time.Duration) { zksuite.Sleep(t, d) }}, test)
}

func inCluster(t *testing.T, test func(t *testing.T, c *cluster)) {
	inClusterWith(t, windlasstest.Options{}, test)
}

// inClusterWith runs a test on an etcd without a listener.
func inClusterWith(t *testing.T, options windlasstest.Options, test func(t *testing.T, c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		server, err := embedded.Start(t.Context(), embedded.Config{UnsafeNoFsync: true})
		if err != nil {
			t.Fatal(err)
		}
		defer closed(t, server)
		options.Open = func() broker.Broker { return server.Broker() }
		runIn(t, options, func(t *testing.T, c *cluster) {
			c.server = server
			test(t, c)
		})
	})
}

func closed(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// join starts a node that has one handler for all types. configure may change its
// configuration.
func (c *cluster) join(name string, configure ...func(*windlass.Config)) *windlasstest.Node {
	c.t.Helper()
	config := windlass.Config{Broker: c.open(), Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(c.work)}}
	for _, f := range configure {
		f(&config)
	}
	return c.Start(name, config)
}

// running gives a node one handler for all types.
func running(run func(context.Context, *windlass.Claim) error) func(*windlass.Config) {
	return func(c *windlass.Config) { c.Handlers[windlass.AnyType] = windlass.HandlerFunc(run) }
}

// joins is join of a node with a plan of faults.
func (c *cluster) joins(name, plan string, configure ...func(*windlass.Config)) *windlasstest.Node {
	c.t.Helper()
	n := c.join(name, configure...)
	n.Use(plan)
	return n
}

// work is a handler that runs for as long as takes says.
func (c *cluster) work(ctx context.Context, claim *windlass.Claim) error {
	if d := c.takes(claim.ID()); d > 0 {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return untilStopped(ctx, claim)
}

// untilStopped is a handler that does not return by itself.
func untilStopped(ctx context.Context, _ *windlass.Claim) error {
	<-ctx.Done()
	return ctx.Err()
}

// starts is how often each task was started.
func (c *cluster) starts() map[string]int {
	starts := map[string]int{}
	for _, id := range c.Ran() {
		starts[id] = len(c.Runs(id))
	}
	return starts
}

func (c *cluster) startsOf(id string) int { return len(c.Runs(id)) }

// causesOf are the causes for which the runs of a task were told to stop.
func (c *cluster) causesOf(id string) (causes []error) {
	for _, r := range c.Runs(id) {
		if r.Cause != nil {
			causes = append(causes, r.Cause)
		}
	}
	return causes
}

// holders says which node runs each task that runs.
func (c *cluster) holders() map[string]string {
	held := map[string]string{}
	for _, id := range c.Ran() {
		for _, r := range c.Runs(id) {
			if r.Ended.IsZero() {
				held[id] = r.Node
			}
		}
	}
	return held
}

func (c *cluster) runningOn(name string) (n int) {
	for _, node := range c.holders() {
		if node == name {
			n++
		}
	}
	return n
}

func (c *cluster) allRunning(n int) func() bool {
	return func() bool { return len(c.holders()) == n }
}

// submit submits n tasks named task-000 and so on.
func (c *cluster) submit(n int, spec windlass.Spec) (ids []string) {
	c.t.Helper()
	var batch []windlass.Submission
	for i := range n {
		ids = append(ids, fmt.Sprintf("task-%03d", i))
		batch = append(batch, windlass.Submission{ID: ids[i], Spec: spec})
	}
	c.Submit(batch...)
	return ids
}

// locked makes a condition on what handlers have written under c.mu.
func (c *cluster) locked(holds func() bool) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return holds()
	}
}

func (c *cluster) status(id string) windlass.Status {
	c.t.Helper()
	d, err := c.client.Task(c.t.Context(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	return d.Status
}

// tell sends a node a command.
// shownFrozen tells whether the store says of a node that it is frozen.
func (c *cluster) shownFrozen(name string) bool {
	nodes, err := c.client.Nodes(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name == name {
			return n.Frozen
		}
	}
	return false
}

// commit writes to the store as an operator would, by hand.
func (c *cluster) commit(ops ...broker.Op) {
	c.t.Helper()
	if _, err := broker.CommitOne(c.t.Context(), c.store, broker.Txn{Then: ops}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) put(key, value string) { c.commit(broker.Put(key, []byte(value))) }

func (c *cluster) delete(key string) { c.commit(broker.Delete(key)) }

// holderOf is the claim on a task.
func (c *cluster) holderOf(id string) (broker.KV, bool) {
	c.t.Helper()
	kv, err := c.store.Get(c.t.Context(), "/test/tasks/"+id+"/owner")
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		c.t.Fatal(err)
	}
	return kv, err == nil
}
