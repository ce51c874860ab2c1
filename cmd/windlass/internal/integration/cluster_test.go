package integration_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/zksuite"
	"github.com/windlass-go/windlass/tree"
	"github.com/windlass-go/windlass/windlasstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a windlasstest.Cluster with helpers that many tests use.
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

// inEach runs a test in virtual time on an etcd without a listener, and again on the broker
// in memory. If a ZooKeeper is configured it runs the test there instead, in real time.
func inEach(t *testing.T, test func(t *testing.T, c *cluster)) {
	if zksuite.On() {
		zksuite.Parallel(t)
		onZooKeeper(t, test)
		return
	}
	if !testing.Short() { // the race detector sees our own code either way
		t.Run("etcd", func(t *testing.T) { inCluster(t, test) })
	}
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

// must fails the test if there was an error.
func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
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

// newNode makes a node that is not one of the cluster's, which starts and records none.
func (c *cluster) newNode(name string, configure ...func(*windlass.Config)) *windlass.Node {
	c.t.Helper()
	config := windlass.Config{
		Broker: c.store, Namespace: "test", Name: name, Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(untilStopped)},
	}
	for _, f := range configure {
		f(&config)
	}
	node, err := windlass.NewNode(config)
	c.must(err)
	return node
}

// run is the function of a handler.
type run = func(context.Context, *windlass.Claim) error

// running gives a node one handler for all types.
func running(do run) func(*windlass.Config) { return also(windlass.AnyType, do) }

// also gives a node one more handler, for a type.
func also(taskType string, do run) func(*windlass.Config) {
	return func(c *windlass.Config) { c.Handlers[taskType] = windlass.HandlerFunc(do) }
}

// handlers gives a node these handlers and no others.
func handlers(byType map[string]run) func(*windlass.Config) {
	return func(config *windlass.Config) {
		config.Handlers = map[string]windlass.NewHandler{}
		for name, do := range byType {
			also(name, do)(config)
		}
	}
}

// failing is a handler that fails for good.
func failing(context.Context, *windlass.Claim) error { return windlass.Permanent(errors.New("broken")) }

// failingOnce is a handler that fails, so that its task runs again later.
func failingOnce(context.Context, *windlass.Claim) error { return errors.New("no") }

// done is a handler that completes its task at once.
func done(context.Context, *windlass.Claim) error { return nil }

// withFaults gives a node a connection with faults, from its first call.
func withFaults(plan string) func(*windlass.Config) {
	return func(c *windlass.Config) { c.Broker = faulty.Wrap(c.Broker, faulty.MustParse(plan)) }
}

// joinFaulty is join followed by a plan of faults.
func (c *cluster) joinFaulty(name, plan string, configure ...func(*windlass.Config)) *windlasstest.Node {
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

// starts returns how often each task was started.
func (c *cluster) starts() map[string]int {
	starts := map[string]int{}
	for _, id := range c.Ran() {
		starts[id] = len(c.Runs(id))
	}
	return starts
}

func (c *cluster) startsOf(id string) int { return len(c.Runs(id)) }

// moves returns the number of starts since an earlier result of starts.
func (c *cluster) moves(since map[string]int) (n int) {
	for id, count := range c.starts() {
		n += count - since[id]
	}
	return n
}

// causesOf returns the causes with which the contexts of a task's runs ended.
func (c *cluster) causesOf(id string) (causes []error) {
	for _, r := range c.Runs(id) {
		if r.Cause != nil {
			causes = append(causes, r.Cause)
		}
	}
	return causes
}

// holders returns the node of each running task.
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

// locked wraps a condition so that it is evaluated under c.mu.
func (c *cluster) locked(holds func() bool) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return holds()
	}
}

func (c *cluster) task(id string) windlass.TaskDetail {
	c.t.Helper()
	d, err := c.client.Task(c.t.Context(), id)
	c.must(err)
	return d
}

func (c *cluster) status(id string) windlass.Status {
	c.t.Helper()
	return c.task(id).Status
}

// wantStatus fails the test unless a task has a status.
func (c *cluster) wantStatus(id string, want windlass.Status) {
	c.t.Helper()
	if got := c.status(id); got != want {
		c.t.Errorf("%s is %s, want %s", id, got, want)
	}
}

// count returns the number of tasks with a status.
func (c *cluster) count(status windlass.Status) int {
	c.t.Helper()
	counts, err := c.client.Count(c.t.Context(), windlass.Filter{})
	c.must(err)
	return counts[status]
}

func (c *cluster) explain(id string) inspect.Explanation {
	c.t.Helper()
	e, err := inspect.New(c.client).Explain(c.t.Context(), id)
	c.must(err)
	return e
}

func (c *cluster) remove(id string) {
	c.t.Helper()
	c.must(c.client.Delete(c.t.Context(), id))
}

func (c *cluster) dequeue(n *windlasstest.Node, taskType string) *windlass.Dequeued {
	c.t.Helper()
	d, err := n.Dequeue(c.t.Context(), taskType)
	c.must(err)
	return d
}

// clientOn returns a client on a broker of its own.
func (c *cluster) clientOn(store broker.Broker) *windlass.Client {
	c.t.Helper()
	client, err := windlass.NewClient(store, "test")
	c.must(err)
	return client
}

// jobs returns the tree of jobs on a broker.
func (c *cluster) jobs(store broker.Broker) *tree.Tree {
	c.t.Helper()
	jobs, err := tree.New(store, "test")
	c.must(err)
	return jobs
}

func (c *cluster) nodes() []windlass.NodeStatus {
	c.t.Helper()
	nodes, err := c.client.Nodes(context.Background())
	c.must(err)
	return nodes
}

// awaitNodes waits until as many nodes are registered.
func (c *cluster) awaitNodes(n int) {
	c.t.Helper()
	c.WaitUntil(5*time.Second, fmt.Sprintf("%d nodes are there", n), func() bool { return len(c.nodes()) == n })
}

// shownFrozen reports whether the store shows a node as frozen.
func (c *cluster) shownFrozen(name string) bool {
	c.t.Helper()
	return slices.ContainsFunc(c.nodes(), func(n windlass.NodeStatus) bool { return n.Name == name && n.Frozen })
}

// commit writes to the store as an operator would, by hand.
func (c *cluster) commit(ops ...broker.Op) {
	c.t.Helper()
	_, err := broker.CommitOne(c.t.Context(), c.store, broker.Txn{Then: ops})
	c.must(err)
}

func (c *cluster) get(key string) broker.KV {
	c.t.Helper()
	kv, err := c.store.Get(c.t.Context(), key)
	c.must(err)
	return kv
}

// collect returns what is stored below a prefix.
func (c *cluster) collect(prefix string) []broker.KV {
	c.t.Helper()
	kvs, _, err := broker.Collect(c.t.Context(), c.store, prefix)
	c.must(err)
	return kvs
}

func (c *cluster) put(key, value string) { c.commit(broker.Put(key, []byte(value))) }

// putForAnHour writes a key that lasts as long as a session of its own, an hour.
func (c *cluster) putForAnHour(key, value string) {
	c.t.Helper()
	session, err := c.store.Grant(c.t.Context(), "", time.Hour)
	c.must(err)
	c.commit(broker.PutSession(key, []byte(value), session.ID))
}

func (c *cluster) delete(key string) { c.commit(broker.Delete(key)) }

// holderOf returns the owner key of a task.
func (c *cluster) holderOf(id string) (broker.KV, bool) {
	c.t.Helper()
	kv, err := c.store.Get(c.t.Context(), "/test/tasks/"+id+"/owner")
	if errors.Is(err, broker.ErrNotFound) {
		return kv, false
	}
	c.must(err)
	return kv, true
}
