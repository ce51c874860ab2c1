package integration_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/faulty"
	"github.com/windlass-go/windlass/cmd/windlass/internal/history"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/statemachine"
)

// world is a cluster whose nodes have faults between them and the broker, and
// whose whole history is checked at the end.
type world struct {
	*cluster
	mu      sync.Mutex
	members map[string]*troubled
	clients []*faulty.Broker
	// finite is how long a handler runs before it is done; zero means until it
	// is stopped.
	finite func(id string) time.Duration
}

// troubled is a node with faults in front of its broker.
type troubled struct {
	*member
	faults *faulty.Broker
}

// inWorld runs a test with faults. Whatever the test does, S1 is checked over
// all that was ever written, and S2 unless the test breaks its assumptions.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	inCluster(t, func(t *testing.T, c *cluster) {
		w := &world{cluster: c, members: map[string]*troubled{}, finite: func(string) time.Duration { return 0 }}
		following, stop := context.WithCancel(t.Context())
		log, err := history.New("test")
		if err != nil {
			t.Fatal(err)
		}
		log.Unannounced = true
		followed := make(chan struct{})
		go func() {
			defer close(followed)
			for batch, err := range c.store.Watch(following, "/test/", 1) {
				if err != nil {
					if following.Err() == nil {
						t.Errorf("the history: %v", err)
					}
					return
				}
				log.Apply(batch.Events)
			}
		}()
		test(t, w)
		for _, m := range w.members {
			m.faults.Use(nil)
			m.faults.Thaw()
			m.faults.Heal()
		}
		for _, m := range w.members {
			_ = m.leave() // what a node that was troubled says in the end is for the test to check
		}
		for _, m := range w.members {
			w.clients = append(w.clients, m.faults)
		}
		for _, faults := range w.clients {
			if err := faults.Close(); err != nil { // waits for what is late
				t.Error(err)
			}
		}
		c.sleep(time.Second)
		stop()
		<-followed
		for _, wrong := range log.Violations() {
			t.Error(wrong)
		}
	})
}

// joins starts a node behind a plan of faults.
func (w *world) joins(name, plan string, configure ...func(*windlass.Config)) *troubled {
	w.t.Helper()
	p, err := faulty.Parse(plan)
	if err != nil {
		w.t.Fatal(err)
	}
	m := &troubled{faults: faulty.Wrap(w.server.Broker(), p)}
	m.member = w.join(name, append([]func(*windlass.Config){func(cfg *windlass.Config) {
		cfg.Broker = m.faults
		cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(w.work)
	}}, configure...)...)
	w.mu.Lock()
	defer w.mu.Unlock()
	key := name
	for i := 2; w.members[key] != nil; i++ {
		key = fmt.Sprintf("%s/%d", name, i)
	}
	w.members[key] = m
	return m
}

// use changes a node's faults.
func (m *troubled) use(t *testing.T, plan string) {
	t.Helper()
	p, err := faulty.Parse(plan)
	if err != nil {
		t.Fatal(err)
	}
	m.faults.Use(p)
}

// work is a handler that takes as long as finite says.
func (w *world) work(ctx context.Context, claim *windlass.Claim) error {
	defer w.began(claim)()
	if d := w.finite(claim.ID()); d > 0 {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	<-ctx.Done()
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.causes[claim.ID()] = append(w.causes[claim.ID()], context.Cause(ctx))
	return ctx.Err()
}

// settled tells whether each task runs once or is done, and whether someone is
// behind every owner key. It returns what is amiss.
func (w *world) settled(ids []string) string {
	kvs, _, err := broker.Collect(w.t.Context(), w.store, "/test/")
	if err != nil {
		return err.Error()
	}
	terminal := map[string]bool{}
	owned := map[string]string{}
	exists := map[string]bool{}
	for _, kv := range kvs {
		id, area := split(kv.Key)
		switch area {
		case "state":
			r, err := statemachine.Parse(kv.Value)
			terminal[id] = err == nil && r.State.Terminal()
		case "owner":
			owned[id] = string(kv.Value)
		case "tasks":
			exists[id] = true
		}
	}
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	for id, owner := range owned {
		if w.running[id] != 1 {
			return fmt.Sprintf("%s is held by %s, and %d handlers run", id, owner, w.running[id])
		}
	}
	for _, id := range ids {
		switch {
		case terminal[id] && exists[id]:
			return id + " has ended and exists"
		case !terminal[id] && !exists[id]:
			return id + " is lost"
		case !terminal[id] && w.running[id] != 1:
			return fmt.Sprintf("%s has %d handlers, owner %q", id, w.running[id], owned[id])
		case terminal[id] && w.running[id] != 0:
			return id + " has ended and runs"
		}
	}
	return ""
}

// settles waits until everything is as it should be.
func (w *world) settles(within time.Duration, ids []string) {
	w.t.Helper()
	start := time.Now()
	for {
		w.settle()
		wrong := w.settled(ids)
		if wrong == "" {
			return
		}
		if time.Since(start) > within {
			w.t.Fatalf("not settled within %v: %s", within, wrong)
		}
		w.sleep(50 * time.Millisecond)
	}
}

// clientBehind is a client with faults in front of its broker.
func (w *world) clientBehind(plan string) *windlass.Client {
	w.t.Helper()
	p, err := faulty.Parse(plan)
	if err != nil {
		w.t.Fatal(err)
	}
	faults := faulty.Wrap(w.server.Broker(), p)
	w.clients = append(w.clients, faults)
	client, err := windlass.NewClient(faults, "test")
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

// submitted submits n tasks and returns those that were acknowledged.
func (w *world) submitted(client *windlass.Client, name string, n int) (ids []string) {
	for i := range n {
		id := fmt.Sprintf("%s-%d", name, i)
		if err := client.Submit(w.t.Context(), windlass.Submission{ID: id}); err == nil || windlass.AlreadySubmitted(err) {
			ids = append(ids, id)
		}
	}
	return ids
}

// forgive forgets overlaps, of a test that breaks the assumptions of S2.
func (w *world) forgive() {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	w.overlaps = nil
}

// delete deletes keys as an operator would, by hand.
func (w *world) delete(keys ...string) {
	w.t.Helper()
	var txn broker.Txn
	for _, key := range keys {
		txn.Then = append(txn.Then, broker.Delete(key))
	}
	if _, err := broker.CommitOne(w.t.Context(), w.store, txn); err != nil {
		w.t.Fatal(err)
	}
}

// holderOf is the claim on a task.
func (w *world) holderOf(id string) (broker.KV, bool) {
	w.t.Helper()
	kv, err := w.store.Get(w.t.Context(), "/test/tasks/"+id+"/owner")
	if err != nil && !errors.Is(err, broker.ErrNotFound) {
		w.t.Fatal(err)
	}
	return kv, err == nil
}

// split says which task a key is about, and what it says of it.
func split(key string) (id, area string) {
	rest := strings.TrimPrefix(key, "/test/")
	area, id, _ = strings.Cut(rest, "/")
	if name, leaf, deeper := strings.Cut(id, "/"); deeper {
		return name, leaf
	}
	return id, area
}

// restored is a broker that, once, lists the tasks at a revision long past.
type restored struct {
	broker.Broker
	once atomic.Bool
}

func (r *restored) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	return func(yield func(broker.Page, error) bool) {
		back := prefix == "/test/tasks/" && r.once.CompareAndSwap(true, false)
		for page, err := range r.Broker.List(ctx, prefix) {
			if back {
				page.Revision = 1
			}
			if !yield(page, err) {
				return
			}
		}
	}
}

// meddler is a coordinator between a node and the real one.
type meddler struct {
	coordinator.Coordinator
	claim func(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result
	adopt func(ctx context.Context, ids []string) []coordinator.Result
	end   func(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended
}

// meddle gives a node a coordinator of which some calls are replaced.
func meddle(with func(m *meddler)) func(*windlass.Config) {
	return func(cfg *windlass.Config) {
		cfg.Coordinator = func(plain coordinator.Coordinator) coordinator.Coordinator {
			m := &meddler{Coordinator: plain, claim: plain.Claim, adopt: plain.Adopt, end: plain.End}
			with(m)
			return m
		}
	}
}

func (m *meddler) Claim(ctx context.Context, wanted []coordinator.Wanted) []coordinator.Result {
	return m.claim(ctx, wanted)
}

func (m *meddler) Adopt(ctx context.Context, ids []string) []coordinator.Result {
	return m.adopt(ctx, ids)
}

func (m *meddler) End(ctx context.Context, endings []coordinator.Ending) []coordinator.Ended {
	return m.end(ctx, endings)
}

// finiteSome makes two of three tasks finite.
func finiteSome(id string) time.Duration {
	switch id[len(id)-1] % 3 {
	case 0:
		return 0
	case 1:
		return 100 * time.Millisecond
	}
	return 6 * time.Second
}

// slowToStop is a handler that takes a while to return after it was told to.
func (w *world) slowToStop(d time.Duration) func(*windlass.Config) {
	return func(cfg *windlass.Config) {
		cfg.Handlers[windlass.AnyType] = windlass.HandlerFunc(func(ctx context.Context, claim *windlass.Claim) error {
			defer w.began(claim)()
			<-ctx.Done()
			<-time.After(d)
			return ctx.Err()
		})
	}
}

// oneAtATime claims one task, and names an hour for the others.
type oneAtATime struct{}

func (oneAtATime) CanClaim(v *windlass.View, _ windlass.Candidate) (bool, time.Time) {
	return v.Self.Tasks == 0, v.Now.Add(time.Hour)
}

func (oneAtATime) Balance(*windlass.View) []string { return nil }

func (w *world) command(node, command string) {
	w.t.Helper()
	if err := w.client.Send(w.t.Context(), node, windlass.Command{Command: command}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) shownFrozen(name string) bool {
	nodes, err := w.client.Nodes(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name == name {
			return n.Frozen
		}
	}
	return false
}
