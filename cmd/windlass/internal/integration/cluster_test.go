package integration_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/clock"
	"github.com/windlass-go/windlass/internal/zksuite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a real etcd with nodes in one bubble of virtual time, and a record
// of what their handlers did.
type cluster struct {
	t *testing.T
	// real tells that time is.
	real bool
	// server is nil on another broker.
	server   *embedded.Server
	connect  func() broker.Broker
	shutDown func() error
	client   *windlass.Client
	store    broker.Broker
	// members are all nodes that were ever started.
	members []*member

	mu sync.Mutex
	// running counts the handlers of a task that run right now.
	running map[string]int
	// overlaps are the tasks that ever had two.
	overlaps []string
	starts   map[string]int
	where    map[string]string
	causes   map[string][]error
}

// inEach runs a test twice, each time in a bubble: on an etcd that nobody listens
// to, and on a store in memory.
func inEach(t *testing.T, test func(t *testing.T, c *cluster)) {
	if zksuite.On() {
		zksuite.Parallel(t)
		onZooKeeper(t, test)
		return
	}
	t.Run("etcd", func(t *testing.T) { inCluster(t, test) })
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := memory.New()
			newCluster(t, func() broker.Broker { return store.Broker() }, store.Close).run(t, test)
		})
	})
}

// onZooKeeper runs a test on a real server, which takes real time.
func onZooKeeper(t *testing.T, test func(t *testing.T, c *cluster)) {
	c := newCluster(t, zksuite.Connect(t), func() error { return nil })
	c.real = true
	c.run(t, test)
}

// inCluster runs a test in a bubble, with an etcd that nobody listens to.
func inCluster(t *testing.T, test func(t *testing.T, c *cluster)) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		server, err := embedded.Start(t.Context(), embedded.Config{Dir: dir, UnsafeNoFsync: true})
		if err != nil {
			t.Fatal(err)
		}
		c := newCluster(t, func() broker.Broker { return server.Broker() }, server.Close)
		c.server = server
		c.run(t, test)
	})
}

func newCluster(t *testing.T, connect func() broker.Broker, shutDown func() error) *cluster {
	store := connect()
	client, err := windlass.NewClient(store, "test")
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{
		t: t, connect: connect, shutDown: shutDown, client: client, store: store, running: map[string]int{}, starts: map[string]int{},
		where: map[string]string{}, causes: map[string][]error{},
	}
}

func (c *cluster) run(t *testing.T, test func(t *testing.T, c *cluster)) {
	// Also when the test gave up: a bubble with goroutines left is a panic
	// that hides why.
	defer func() {
		for _, m := range c.members {
			m.leave()
		}
		if err := c.shutDown(); err != nil {
			t.Error(err)
		}
	}()
	test(t, c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.overlaps) > 0 {
		t.Errorf("two handlers at once for %q", c.overlaps)
	}
}

// member is a node of the cluster that can be stopped.
type member struct {
	*windlass.Node
	stop  context.CancelFunc
	ended chan struct{}
	err   error // set before ended is closed
}

// leave stops the node and waits for it.
func (m *member) leave() error {
	m.stop()
	<-m.ended
	return m.err
}

// join starts a node. configure may change its configuration.
func (c *cluster) join(name string, configure ...func(*windlass.Config)) *member {
	c.t.Helper()
	config := windlass.Config{
		Broker: c.connect(), Namespace: "test", Name: name, Clock: clock.Process,
		Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(c.untilStopped)},
	}
	if testing.Verbose() && os.Getenv("WINDLASS_TEST_LOG") != "" {
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With("node", name)
		config.Events = windlass.LogEvents(log)
	}
	for _, f := range configure {
		f(&config)
	}
	node, err := windlass.NewNode(config)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &member{Node: node, stop: stop, ended: make(chan struct{})}
	go func() {
		defer close(m.ended)
		m.err = node.Run(ctx)
	}()
	c.members = append(c.members, m)
	return m
}

// untilStopped is the handler of a task that never ends by itself.
func (c *cluster) untilStopped(ctx context.Context, claim *windlass.Claim) error {
	defer c.began(claim)()
	<-ctx.Done()
	c.mu.Lock()
	c.causes[claim.ID()] = append(c.causes[claim.ID()], context.Cause(ctx))
	c.mu.Unlock()
	return ctx.Err()
}

// began records that a handler runs, until the function it returns is called.
func (c *cluster) began(claim *windlass.Claim) (ended func()) {
	id := claim.ID()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[id]++
	c.starts[id]++
	c.where[id] = claim.Node()
	if c.running[id] > 1 {
		c.overlaps = append(c.overlaps, id)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.running[id]--; c.running[id] == 0 {
			delete(c.running, id)
		}
	}
}

func (c *cluster) startsOf(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starts[id]
}

func (c *cluster) causesOf(id string) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.causes[id])
}

func (c *cluster) runningOn(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for id := range c.running {
		if c.where[id] == name {
			n++
		}
	}
	return n
}

// submit submits n tasks named task-000 and so on.
func (c *cluster) submit(n int, spec windlass.Spec) []string {
	c.t.Helper()
	var ids []string
	var submissions []windlass.Submission
	for i := range n {
		id := fmt.Sprintf("task-%03d", i)
		ids = append(ids, id)
		submissions = append(submissions, windlass.Submission{ID: id, Spec: spec})
	}
	for _, err := range c.client.SubmitAll(c.t.Context(), submissions) {
		if err != nil {
			c.t.Fatal(err)
		}
	}
	return ids
}

// eventually waits, in virtual time, until a condition holds.
func (c *cluster) eventually(within time.Duration, what string, holds func() bool) time.Duration {
	c.t.Helper()
	start := time.Now()
	c.settle()
	for !holds() {
		if time.Since(start) > within {
			c.t.Fatalf("not within %v: %s", within, what)
		}
		c.sleep(10 * time.Millisecond)
	}
	return time.Since(start)
}

// locked makes a condition over what handlers have written under c.mu.
func (c *cluster) locked(holds func() bool) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return holds()
	}
}

// sleep lets virtual time pass and everything that is due then happen.
func (c *cluster) sleep(d time.Duration) {
	if c.real {
		zksuite.Sleep(c.t, d)
		return
	}
	time.Sleep(d)
	synctest.Wait()
}

// settle lets everything that is due happen.
func (c *cluster) settle() {
	if c.real {
		time.Sleep(zksuite.SettleTime)
		return
	}
	synctest.Wait()
}

func (c *cluster) allRunning(n int) func() bool {
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.running) == n
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
