package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
)

// BenchmarkMemory reports what a task costs a node, heap and stacks after a
// collection: one that it runs and that waits, one that sleeps, and one that
// another node holds. What the broker in memory keeps of a claim is measured
// apart and taken off.
func BenchmarkMemory(b *testing.B) {
	idle := windlass.HandlerFunc(func(ctx context.Context, _ *windlass.Claim) error {
		<-ctx.Done()
		return ctx.Err()
	})
	b.Run("running", func(b *testing.B) { memoryOf(b, idle, false) })
	b.Run("sleeping", func(b *testing.B) { memoryOf(b, idle, true) })
	b.Run("elsewhere", memoryElsewhere)
}

func memoryOf(b *testing.B, handler windlass.NewHandler, asleep bool) {
	for range b.N {
		s := newStored(b)
		if asleep {
			putToSleep(b, s.store.Broker())
		}
		before := resident()
		s.join("n1", handler)
		s.await()
		b.ReportMetric(float64(resident()-before-storedClaims(b))/tasks, "B/task")
		s.close()
	}
}

// memoryElsewhere is about a node that looks on while another one runs all.
func memoryElsewhere(b *testing.B) {
	for range b.N {
		s := newStored(b)
		claimAll(b, s.store.Broker())
		before := resident()
		s.join("looker", windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return nil }))
		s.await()
		b.ReportMetric(float64(resident()-before)/tasks, "B/task")
		s.close()
	}
}

// stored is a broker in memory with tasks, and the nodes on it.
type stored struct {
	b      *testing.B
	store  *memory.Store
	client *windlass.Client
	ctx    context.Context
	stop   context.CancelFunc
	nodes  sync.WaitGroup
}

func newStored(b *testing.B) *stored {
	b.Helper()
	s := &stored{b: b, store: memory.New()}
	s.ctx, s.stop = context.WithCancel(b.Context())
	var err error
	if s.client, err = windlass.NewClient(s.store.Broker(), ""); err != nil {
		b.Fatal(err)
	}
	submissions := make([]windlass.Submission, tasks)
	for i := range submissions {
		submissions[i].ID = taskName(i)
	}
	for _, err := range s.client.SubmitAll(b.Context(), submissions) {
		if err != nil {
			b.Fatal(err)
		}
	}
	return s
}

func taskName(i int) string { return fmt.Sprintf("task-%06d", i) }

func (s *stored) join(name string, handler windlass.NewHandler) {
	s.b.Helper()
	node, err := windlass.NewNode(windlass.Config{
		Broker: s.store.Broker(), Name: name, SessionTTL: time.Minute,
		Handlers: map[string]windlass.NewHandler{windlass.AnyType: handler},
	})
	if err != nil {
		s.b.Fatal(err)
	}
	s.nodes.Go(func() {
		if err := node.Run(s.ctx); err != nil {
			s.b.Error(err)
		}
	})
	waitForNodes(s.b, s.client, 1)
}

// await waits until all tasks are held, and a moment for what is on its way to be
// forgotten.
func (s *stored) await() {
	s.b.Helper()
	poll := time.NewTicker(100 * time.Millisecond)
	defer poll.Stop()
	for range poll.C {
		owned, err := s.client.Tasks(s.b.Context(), windlass.Filter{Nodes: []string{"n1"}})
		if err != nil {
			s.b.Fatal(err)
		}
		if len(owned) == tasks {
			break
		}
	}
	<-time.After(3 * time.Second) // what is written down afterwards counts as the broker's
}

func (s *stored) close() {
	s.stop()
	s.nodes.Wait()
	if err := s.store.Close(); err != nil {
		s.b.Error(err)
	}
}

// storedClaims is what a broker in memory needs for claims.
func storedClaims(b *testing.B) int64 {
	b.Helper()
	s := newStored(b)
	before := resident()
	claimAll(b, s.store.Broker())
	grown := resident() - before
	s.close()
	return grown
}

// claimAll writes what the store holds of tasks that a node has.
func claimAll(b *testing.B, store broker.Broker) {
	b.Helper()
	session, err := store.Grant(b.Context(), "", 5*time.Minute)
	if err != nil {
		b.Fatal(err)
	}
	const ns = windlass.NamespaceDefault
	txns := make([]broker.Txn, tasks)
	for i := range txns {
		id := taskName(i)
		txns[i].Then = []broker.Op{
			broker.PutSession(ns+"/tasks/"+id+"/owner", []byte(`{"node":"n1"}`), session.ID),
			broker.PutSession(ns+"/claims/"+id, []byte(`{"claimed_at":"2026-01-02T15:04:05.999999999Z","incarnation":"0123456789abcdef","reason":"placed"}`), session.ID),
			broker.Put(ns+"/history/"+id, []byte(`{"claims":1,"interruptions":0,"entries":[{"at":"2026-01-02T15:04:05.999999999Z","event":"claimed","node":"n1","token":100001,"detail":"placed"}]}`)),
		}
	}
	commitAll(b, store, txns)
}

// putToSleep lets all tasks sleep after an error, as far as the store says.
func putToSleep(b *testing.B, store broker.Broker) {
	b.Helper()
	txns := make([]broker.Txn, tasks)
	for i := range txns {
		txns[i].Then = []broker.Op{broker.Put(windlass.NamespaceDefault+"/state/"+taskName(i), sleepingState)}
	}
	commitAll(b, store, txns)
}

func commitAll(b *testing.B, store broker.Broker, txns []broker.Txn) {
	b.Helper()
	for _, r := range store.Commit(b.Context(), txns...) {
		if r.Err != nil {
			b.Fatal(r.Err)
		}
	}
}

// resident is the memory that is live after a collection, of broker and nodes
// together.
func resident() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// sleepingState is about what is stored of a task that sleeps after an error.
var sleepingState = []byte(`{"state":"sleeping","until":"2126-01-02T15:04:05.999999999Z","errors":[{"timestamp":"2026-01-02T15:04:05.999999999Z","error":"not now"}],` +
	`"node":"n0","token":1,"claimed_at":"2026-01-02T15:04:05.999999999Z","changed_at":"2026-01-02T15:04:05.999999999Z"}`)
