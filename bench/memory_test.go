package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
)

// BenchmarkMemory reports the memory of a node for a task, heap and stacks after a
// garbage collection: for a task that it runs and that waits, one that sleeps, and one
// that another node holds. The memory of the broker for a claim is measured separately
// and subtracted.
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

// memoryElsewhere measures a node while another one runs all tasks.
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
	s.client = newClient(b, s.store.Broker())
	submissions := make([]windlass.Submission, tasks)
	for i := range submissions {
		submissions[i].ID = taskName(i)
	}
	must(b, errors.Join(s.client.SubmitAll(b.Context(), submissions)...))
	return s
}

func taskName(i int) string { return fmt.Sprintf("task-%06d", i) }

func (s *stored) join(name string, handler windlass.NewHandler) {
	s.b.Helper()
	startNode(s.ctx, s.b, &s.nodes, windlass.Config{
		Broker: s.store.Broker(), Name: name, SessionTTL: time.Minute,
		Handlers: map[string]windlass.NewHandler{windlass.AnyType: handler},
	})
	waitForNodes(s.b, s.client, 1)
}

// await waits until all tasks are held and their audit records, which count as the
// broker's memory, are written.
func (s *stored) await() {
	s.b.Helper()
	poll(100*time.Millisecond, func() bool {
		owned, err := s.client.Tasks(s.b.Context(), windlass.Filter{Nodes: []string{"n1"}})
		must(s.b, err)
		return len(owned) == tasks
	})
	<-time.After(3 * time.Second)
}

func (s *stored) close() {
	s.stop()
	s.nodes.Wait()
	if err := s.store.Close(); err != nil {
		s.b.Error(err)
	}
}

// storedClaims returns the memory of the broker for the claims.
func storedClaims(b *testing.B) int64 {
	b.Helper()
	s := newStored(b)
	before := resident()
	claimAll(b, s.store.Broker())
	grown := resident() - before
	s.close()
	return grown
}

// claimAll writes the keys of tasks that a node holds.
func claimAll(b *testing.B, store broker.Broker) {
	b.Helper()
	session, err := store.Grant(b.Context(), "", 5*time.Minute)
	must(b, err)
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

// putToSleep stores for all tasks the state of sleeping after an error.
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
		if !r.OK {
			b.Fatal(r.Err)
		}
	}
}

// resident returns the memory in use after a garbage collection, of broker and nodes
// together.
func resident() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// sleepingState is a typical state of a task that sleeps after an error.
var sleepingState = []byte(`{"state":"sleeping","until":"2126-01-02T15:04:05.999999999Z","errors":[{"timestamp":"2026-01-02T15:04:05.999999999Z","error":"not now"}],` +
	`"node":"n0","token":1,"claimed_at":"2026-01-02T15:04:05.999999999Z","changed_at":"2026-01-02T15:04:05.999999999Z"}`)
