package tree

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
	"github.com/windlass-go/windlass/internal/clock"
	"github.com/windlass-go/windlass/internal/zksuite"
)

// cluster is a tree with nodes that work on it, in a bubble of virtual time.
type cluster struct {
	*Tree
	t       *testing.T
	connect func() broker.Broker
	client  *windlass.Client
	stops   []func()

	mu   sync.Mutex
	runs []string // the IDs of the jobs that were begun, in order
}

// inCluster runs a test on a store in memory, or on a real ZooKeeper.
func inCluster(t *testing.T, test func(t *testing.T, c *cluster)) {
	if !zksuite.On() {
		inMemory(t, test)
		return
	}
	zksuite.Parallel(t)
	runIn(t, zksuite.Connect(t), test)
}

func inMemory(t *testing.T, test func(t *testing.T, c *cluster)) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		defer func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		}()
		runIn(t, func() broker.Broker { return store.Broker() }, test)
	})
}

func runIn(t *testing.T, connect func() broker.Broker, test func(t *testing.T, c *cluster)) {
	tree, err := New(connect(), "test")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{Tree: tree, t: t, connect: connect, client: tree.client}
	defer func() {
		for _, stop := range c.stops {
			stop()
		}
	}()
	test(t, c)
}

func (c *cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// other returns another tree on the store.
func (c *cluster) other(store broker.Broker) *Tree {
	c.t.Helper()
	tree, err := New(store, "test")
	c.must(err)
	return tree
}

// join starts a node with a handler for all types; nil completes every job.
func (c *cluster) join(name string, run func(ctx context.Context, claim *windlass.Claim) error) {
	c.t.Helper()
	node, err := windlass.NewNode(windlass.Config{
		Broker: c.connect(), Namespace: "test", Name: name, Clock: clock.Process,
		Handlers: map[string]windlass.NewHandler{windlass.AnyType: windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
			c.mu.Lock()
			c.runs = append(c.runs, claim.ID())
			c.mu.Unlock()
			if run == nil {
				return nil
			}
			return run(ctx, claim)
		})},
	})
	c.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- node.Run(ctx) }()
	c.stops = append(c.stops, func() {
		cancel()
		if err := <-ended; err != nil {
			c.t.Error(err)
		}
	})
}

// sleep lets virtual time pass, and everything due by then happen.
func (c *cluster) sleep(d time.Duration) {
	if zksuite.On() {
		zksuite.Sleep(c.t, d)
		return
	}
	time.Sleep(d)
	synctest.Wait()
}

func (c *cluster) queue(requests ...Request) []Queued {
	c.t.Helper()
	queued, err := c.Queue(c.t.Context(), requests...)
	c.must(err)
	return queued
}

// queuedPaths returns the paths of what was queued.
func queuedPaths(queued []Queued) []Path {
	var p []Path
	for _, q := range queued {
		p = append(p, q.Path)
	}
	return p
}

func (c *cluster) statuses() map[Path]windlass.Status {
	c.t.Helper()
	f, err := c.Load(c.t.Context())
	c.must(err)
	statuses := map[Path]windlass.Status{}
	for _, j := range f.Jobs() {
		statuses[j.Path] = j.Status
	}
	return statuses
}

// settle waits until no job changes its status for a second of virtual time.
func (c *cluster) settle() map[Path]windlass.Status {
	c.t.Helper()
	for range 600 {
		c.sleep(time.Second)
		n, err := c.client.Count(c.t.Context(), windlass.Filter{})
		c.must(err)
		if n[windlass.StatusPending]+n[windlass.StatusRunning]+n[windlass.StatusSleeping] == 0 {
			break
		}
	}
	return c.statuses()
}

// broken fails the jobs of a name for good.
func broken(name string) func(context.Context, *windlass.Claim) error {
	return func(_ context.Context, claim *windlass.Claim) error {
		if pathOf(claim.ID()).Name() == name {
			return windlass.Permanent(errors.New("broken"))
		}
		return nil
	}
}

// raw returns the JSON of a value.
func raw(v any) json.RawMessage {
	value, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return value
}
