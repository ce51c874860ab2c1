//go:build e2e && linux

package browsertest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/api"
	"github.com/windlass-go/windlass/broker/memory"
)

// stage is an address at which servers in the process of the test answer, one after the other.
// The test can delay and change answers, and count requests.
type stage struct {
	*testing.T
	store   *memory.Store
	client  *windlass.Client
	address string

	server atomic.Pointer[api.Server]
	// before, if set, gets every request first, and returns false if it has answered.
	before atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	// changes counts the requests that could change something.
	changes atomic.Int64

	mu   sync.Mutex
	leaf context.CancelFunc // ends the server that answers now, and what it streams
	runs sync.WaitGroup
}

const stageNamespace = "/stage"

// newStage opens an address with a server that local users may do everything on.
func newStage(t *testing.T, change func(*api.Config)) *stage {
	t.Helper()
	needsChromium(t)
	t.Parallel() // they wait more than they work
	s := &stage{T: t, store: memory.New()}
	var err error
	if s.client, err = windlass.NewClient(s.store.Broker(), stageNamespace); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s.address = "http://" + listener.Addr().String() + "/"
	s.play(change)
	server := &http.Server{Handler: s}
	s.runs.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		s.mu.Lock()
		s.leaf()
		s.mu.Unlock()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		s.runs.Wait()
		if err := s.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// play replaces the server; the streams of the one before end.
func (s *stage) play(change func(*api.Config)) {
	s.Helper()
	config := api.Config{Broker: s.store.Broker(), Namespace: stageNamespace, LocalRole: api.RoleAdmin, Dashboard: true, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&config)
	}
	next, err := api.New(config)
	must(s.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	s.runs.Go(func() {
		if err := next.Run(ctx); err != nil {
			s.Error(err)
		}
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server.Store(next)
	if s.leaf != nil {
		s.leaf()
	}
	s.leaf = cancel
}

// meanwhile passes every request to a function before the server.
func (s *stage) meanwhile(before func(http.ResponseWriter, *http.Request) bool) {
	s.before.Store(&before)
}

// ServeHTTP implements http.Handler.
func (s *stage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		s.changes.Add(1)
	}
	if before := s.before.Load(); before != nil && !(*before)(w, r) {
		return
	}
	s.server.Load().ServeHTTP(w, r)
}

// submit submits tasks of a type. One whose name ends in the type is a job of the tree.
func (s *stage) submit(kind string, ids ...string) {
	s.Helper()
	for some := range slices.Chunk(ids, windlass.SubmitBatchMax) {
		var batch []windlass.Submission
		for _, id := range some {
			batch = append(batch, windlass.Submission{ID: id, Spec: windlass.Spec{Type: kind, Job: strings.HasSuffix(id, "_"+kind)}})
		}
		for _, err := range s.client.SubmitAll(s.Context(), batch) {
			must(s.T, err)
		}
	}
}

// remove deletes tasks.
func (s *stage) remove(ids ...string) {
	s.Helper()
	for _, id := range ids {
		must(s.T, s.client.Delete(s.Context(), id))
	}
}

// node runs a node whose handlers run until they are stopped.
func (s *stage) node(name, kind string) {
	s.Helper()
	s.handling(name, kind, func(ctx context.Context, _ *windlass.Claim) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

// handling runs a node with a handler.
func (s *stage) handling(name, kind string, run func(context.Context, *windlass.Claim) error) {
	s.Helper()
	node, err := windlass.NewNode(windlass.Config{
		Broker: s.store.Broker(), Namespace: stageNamespace, Name: name,
		Handlers: map[string]windlass.NewHandler{kind: windlass.HandlerFunc(run)},
	})
	must(s.T, err)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := node.Run(ctx); err != nil {
			s.Error(err)
		}
	})
	s.Cleanup(func() { cancel(); running.Wait() })
}
