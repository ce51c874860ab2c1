package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/broker/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bench is a server on a store in memory, with its log.
type bench struct {
	*testing.T
	store  *memory.Store
	broker *countedBroker
	client *windlass.Client
	config Config
	server *Server
	log    *logged
}

// newBench makes a server without running it; change may alter its configuration.
func newBench(t *testing.T, change func(*Config)) *bench {
	t.Helper()
	b := &bench{T: t, store: memory.New(), log: &logged{}}
	b.broker = &countedBroker{Broker: b.store.Broker()}
	b.config = Config{
		LocalRole: RoleAdmin,
		Broker:    b.broker, Namespace: "/test", Audit: slog.New(slog.NewJSONHandler(b.log, nil)), Logger: slog.New(slog.DiscardHandler),
		Limits: Limits{Rate: 1e6, RateBurst: 1e6},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			fmt.Fprintln(w, "a_metric 1")
		}),
	}
	if change != nil {
		change(&b.config)
	}
	var err error
	b.server, err = New(b.config)
	must(t, err)
	b.client, err = windlass.NewClient(b.store.Broker(), "/test")
	must(t, err)
	t.Cleanup(func() {
		if err := b.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// background runs f until the test ends.
func (b *bench) background(f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f(ctx); err != nil {
			b.Error(err)
		}
	})
	b.Cleanup(func() { cancel(); running.Wait() })
}

// run runs the server until the test ends.
func (b *bench) run() {
	b.Helper()
	b.background(b.server.Run)
	b.eventually("the server runs", func() bool {
		b.server.hub.mu.Lock()
		defer b.server.hub.mu.Unlock()
		return b.server.hub.running
	})
}

// eventually polls until a condition holds.
func (b *bench) eventually(what string, is func() bool) {
	b.Helper()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(20 * time.Second); !is(); <-poll.C {
		if time.Now().After(end) {
			b.Fatalf("not in time: %s", what)
		}
	}
}

// request returns a request from this machine; the options change it.
func request(method, path, body string, options ...func(*http.Request)) *http.Request {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host, r.RemoteAddr = "localhost:8090", "127.0.0.1:40000"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, option := range options {
		option(r)
	}
	return r
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func withToken(token string) func(*http.Request) { return header("Authorization", "Bearer "+token) }

// do sends a request to the server without a network.
func (b *bench) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	b.server.ServeHTTP(w, r)
	return w
}

// want sends a request and checks its status and, unless it is empty, its problem's code.
func (b *bench) want(status int, code string, r *http.Request) *httptest.ResponseRecorder {
	b.Helper()
	w := b.do(r)
	if w.Code != status {
		b.Fatalf("%s %s: status %d, want %d: %s", r.Method, r.URL, w.Code, status, w.Body)
	}
	if code == "" {
		return w
	}
	if got := w.Header().Get("Content-Type"); got != problemType {
		b.Fatalf("%s %s: a problem of type %q", r.Method, r.URL, got)
	}
	if p := read[Problem](b, w); p.Code != code || p.Status != status || p.Title == "" || p.Detail == "" {
		b.Fatalf("%s %s: the problem is %+v, want the code %q", r.Method, r.URL, p, code)
	}
	return w
}

// read decodes a body, which has to have the fields of T only.
func read[T any](b *bench, w *httptest.ResponseRecorder) (value T) {
	b.Helper()
	d := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	d.DisallowUnknownFields()
	must(b, d.Decode(&value))
	return value
}

func (b *bench) submit(submissions ...windlass.Submission) {
	b.Helper()
	must(b, errors.Join(b.client.SubmitAll(b.Context(), submissions)...))
}

// listen serves on a port of this machine until the test ends, and returns its
// address.
func (b *bench) listen() string {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	b.serve(listener, nil)
	return listener.Addr().String()
}

// serve serves on a listener until the test ends.
func (b *bench) serve(listener net.Listener, config *tls.Config) {
	b.background(func(ctx context.Context) error { return b.server.Serve(ctx, listener, config) })
}

// listenInBubble serves in virtual time; the wire dials connections.
func (b *bench) listenInBubble() *wire {
	w := newWire()
	b.serve(w, nil)
	return w
}

// logged are records of a log, as lines of JSON.
type logged struct {
	mu    sync.Mutex
	lines bytes.Buffer
}

// Write implements io.Writer.
func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.Write(line)
}

// records removes and returns the records so far.
func (l *logged) records(b *bench) (records []map[string]any) {
	b.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.lines.String()) {
		var r map[string]any
		must(b, json.Unmarshal([]byte(line), &r))
		records = append(records, r)
	}
	l.lines.Reset()
	return records
}

// countedBroker counts calls, and can let them fail, or wait until their context ends.
type countedBroker struct {
	broker.Broker
	calls   atomic.Int64
	watches atomic.Int64
	failure atomic.Pointer[error]
	hangs   atomic.Bool
	panics  atomic.Bool
	refuses atomic.Bool            // all transactions, because their conditions do not hold
	last    atomic.Pointer[string] // the key that was read last
}

func (c *countedBroker) call(ctx context.Context) error {
	c.calls.Add(1)
	if c.panics.Load() {
		panic("a broker that panics")
	}
	if c.hangs.Load() {
		<-ctx.Done()
		return broker.NewError("test", "", broker.ErrUnavailable, ctx.Err())
	}
	if err := c.failure.Load(); err != nil {
		return broker.NewError("test", "", *err, nil)
	}
	return nil
}

// Get implements broker.Broker.
func (c *countedBroker) Get(ctx context.Context, key string) (broker.KV, error) {
	c.last.Store(&key)
	if err := c.call(ctx); err != nil {
		return broker.KV{}, err
	}
	return c.Broker.Get(ctx, key)
}

// List implements broker.Broker.
func (c *countedBroker) List(ctx context.Context, prefix string) iter.Seq2[broker.Page, error] {
	if err := c.call(ctx); err != nil {
		return func(yield func(broker.Page, error) bool) { yield(broker.Page{}, err) }
	}
	return c.Broker.List(ctx, prefix)
}

// Commit implements broker.Broker.
func (c *countedBroker) Commit(ctx context.Context, txns ...broker.Txn) []broker.Result {
	if err := c.call(ctx); err != nil {
		results := make([]broker.Result, len(txns))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	if c.refuses.Load() {
		return make([]broker.Result, len(txns))
	}
	return c.Broker.Commit(ctx, txns...)
}

// Grant implements broker.Broker.
func (c *countedBroker) Grant(ctx context.Context, folder string, ttl time.Duration) (broker.Session, error) {
	if err := c.call(ctx); err != nil {
		return broker.Session{}, err
	}
	return c.Broker.Grant(ctx, folder, ttl)
}

// Watch implements broker.Broker.
func (c *countedBroker) Watch(ctx context.Context, prefix string, from broker.Revision) iter.Seq2[broker.Batch, error] {
	c.watches.Add(1)
	return c.Broker.Watch(ctx, prefix, from)
}
