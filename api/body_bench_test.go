//go:build e2e

package api

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/windlass-go/windlass/broker/memory"
)

// BenchmarkBody_Worst has what the worst body of 4 MiB takes of each operation: the heap above what it was,
// and the time. Nothing else should run beside it.
func BenchmarkBody_Worst(b *testing.B) {
	store := memory.New()
	defer store.Close()
	server := benchServer(b, store)
	for _, e := range server.withBodies() {
		b.Run(e.ID, func(b *testing.B) {
			var peak uint64
			var longest time.Duration
			for b.Loop() {
				for _, a := range attacksOn(e, 4<<20-200) {
					runtime.GC()
					at, stop := heapPeak()
					took := costOf(server, e, a).took
					peak, longest = max(peak, stop()-at), max(longest, took)
				}
			}
			b.ReportMetric(float64(peak)/(1<<20), "MB-above-idle")
			b.ReportMetric(float64(longest.Milliseconds()), "ms-longest")
		})
	}
}

func benchServer(b *testing.B, store *memory.Store) *Server {
	server, err := New(Config{
		LocalRole: RoleAdmin, Broker: store.Broker(), Namespace: "/bench", Limits: Limits{Rate: 1e6, RateBurst: 1e6},
		Audit: slog.New(slog.DiscardHandler), Logger: slog.New(slog.DiscardHandler),
	})
	must(b, err)
	return server
}

// heapPeak returns the size of the heap, and a function that returns the greatest since.
func heapPeak() (at uint64, stop func() uint64) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	at = sample[0].Value.Uint64()
	most, ended, over := at, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			metrics.Read(sample)
			most = max(most, sample[0].Value.Uint64())
			select {
			case <-ended:
				return
			case <-time.After(200 * time.Microsecond):
			}
		}
	}()
	return at, func() uint64 {
		close(ended)
		<-over
		return most
	}
}

// serving is a "windlass serve" that BenchmarkRequests_Search attacks in place of a server of its own.
var (
	serving    = flag.String("serve", "", "address of the serve to attack, such as http://127.0.0.1:8090")
	servingPID = flag.Int("serve-pid", 0, "its process on this machine, whose memory is measured instead of what it allocates")
)

// BenchmarkRequests_Search looks for the request that takes most: with -benchtime 30m for that long. It mutates
// bodies, paths, queries and headers of all operations, and goes on from those that took more than others.
func BenchmarkRequests_Search(b *testing.B) {
	store := memory.New()
	defer store.Close()
	server := benchServer(b, store)
	s := newSearch(server)
	if *serving != "" {
		process := &attacked{address: *serving}
		must(b, process.scrape())
		defer http.DefaultClient.CloseIdleConnections()
		s.costOf = process.costOf
	}
	var worst, slowest tried
	for b.Loop() {
		t := s.next()
		t.cost = s.run(t)
		s.keep(t)
		if t.cost.allocated > worst.cost.allocated {
			worst = t
			fmt.Fprintf(os.Stderr, "%d MB, %v: %v\n", worst.cost.allocated>>20, worst.cost.took, worst)
		}
		for range 2 { // it is slow if it is each time
			if t.cost.took > slowest.cost.took {
				t.cost.took = min(t.cost.took, s.run(t).took)
			}
		}
		if t.cost.took > slowest.cost.took {
			slowest = t
		}
		if t.cost.status >= 500 && t.cost.status != http.StatusServiceUnavailable && t.cost.status != http.StatusGatewayTimeout {
			b.Errorf("status %d: %v", t.cost.status, t)
		}
	}
	b.Logf("most memory: %d MB, %v: %v", worst.cost.allocated>>20, worst.cost.took, worst)
	b.Logf("most time: %d MB, %v: %v", slowest.cost.allocated>>20, slowest.cost.took, slowest)
	b.ReportMetric(float64(worst.cost.allocated)/(1<<20), "MB-allocated")
	b.ReportMetric(float64(slowest.cost.took.Milliseconds()), "ms-longest")
}

// tried is a request.
type tried struct {
	e                        *endpoint
	body, id, query, headers string
	cost                     cost
}

func (t tried) String() string {
	return fmt.Sprintf("%s id=%.40q(%d) query=%.80q(%d) headers=%d body=%.120q(%d) status=%d",
		t.e.ID, t.id, len(t.id), t.query, len(t.query), len(t.headers), t.body, len(t.body), t.cost.status)
}

// search keeps the requests of each operation that took most.
type search struct {
	costOf func(*http.Request) cost
	all    []*endpoint
	pool   map[string][]tried
	names  map[string][]string // of the parameters of each operation
	random *rand.Rand
}

// pooled is how many of each operation it goes on from.
const pooled = 6

func newSearch(server *Server) *search {
	s := &search{
		costOf: func(r *http.Request) cost { return costOfRequest(server, r) },
		pool:   map[string][]tried{}, names: map[string][]string{}, random: rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano()))),
	}
	for _, e := range server.endpoints {
		if !e.Stream {
			s.all = append(s.all, e)
		}
	}
	slices.SortFunc(s.all, func(a, b *endpoint) int { return strings.Compare(a.ID, b.ID) })
	for _, item := range server.huma.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Patch, item.Delete} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				if p.In == "query" {
					s.names[op.OperationID] = append(s.names[op.OperationID], p.Name)
				}
			}
		}
	}
	return s
}

func (s *search) next() tried {
	e := s.all[s.random.IntN(len(s.all))]
	pool := s.pool[e.ID]
	if len(pool) < pooled {
		t := tried{e: e, id: "a"}
		if e.hasBody {
			seeds := attacksOn(e, 1<<20)
			t.body = seeds[s.random.IntN(len(seeds))].body()
		}
		return t
	}
	t := pool[s.random.IntN(len(pool))]
	for range 1 + s.random.IntN(3) {
		s.mutate(&t)
	}
	return t
}

func (s *search) mutate(t *tried) {
	switch n := s.random.IntN(10); {
	case n < 7 && t.e.hasBody:
		t.body = s.mutated(t.body)
	case n == 7:
		t.id = s.mutated(t.id)
		t.id = t.id[:min(len(t.id), 8000)]
	case n == 8:
		t.headers = strings.Repeat("x", s.random.IntN(30_000))
	default:
		names := s.names[t.e.ID]
		if len(names) == 0 {
			return
		}
		values := []string{"a", "0", "1", "2026-01-01T00:00:00Z", "(a*)*b", "%2F", "a=b", "10s", strings.Repeat("x", s.random.IntN(4000))}
		t.query += "&" + names[s.random.IntN(len(names))] + "=" + url.QueryEscape(values[s.random.IntN(len(values))])
		t.query = t.query[max(0, len(t.query)-20_000):]
	}
}

// mutated changes a text: a part of it is repeated, nested, removed, or replaced by another.
func (s *search) mutated(text string) string {
	const most = 4 << 20
	if text == "" {
		return "{}"
	}
	from := s.random.IntN(len(text))
	to := from + 1 + s.random.IntN(min(len(text)-from, 1+s.random.IntN(200)))
	part := text[from:min(to, len(text))]
	switch s.random.IntN(7) {
	case 0:
		times := 1 << s.random.IntN(22)
		part = strings.Repeat(part, max(1, min(times, (most-len(text))/len(part))))
	case 1:
		part = strings.Repeat(`{"a":`, 1+s.random.IntN(1000)) + "1" + strings.Repeat("}", 1+s.random.IntN(1000))
	case 2:
		part = ""
	case 3:
		words := []string{`"`, "{", "}", "[", "]", ",", ":", "0", "null", `"id"`, `"props"`, `"ids"`, `"needs"`, `"selection"`, `"tags"`, `{"":0},`, `"\u0000"`, "1e400", "\xff"}
		part = words[s.random.IntN(len(words))]
	case 4:
		n := 1 + s.random.IntN(1000)
		part = strings.Repeat("[", n) + part + strings.Repeat("]", n)
	case 5:
		part = listOf(`{"id":"`+strings.Repeat("x", s.random.IntN(50))+`"}`, 1+s.random.IntN(most/4))
	default:
		var b strings.Builder
		for i := range 1 + s.random.IntN(100_000) {
			fmt.Fprintf(&b, `"k%d":0,`, i)
		}
		part = b.String()
	}
	text = text[:from] + part + text[min(to, len(text)):]
	return text[:min(len(text), most)]
}

func (s *search) run(t tried) cost {
	path := strings.NewReplacer("{id}", url.PathEscape(t.id), "{name}", url.PathEscape(t.id), "{path}", url.PathEscape(t.id)).Replace(t.e.Path)
	if t.query != "" {
		path += "?" + strings.TrimPrefix(t.query, "&")
	}
	r, err := http.NewRequest(t.e.Method, "http://localhost"+path, strings.NewReader(t.body))
	if err != nil {
		return cost{}
	}
	r.RemoteAddr = "127.0.0.1:40000"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Traceparent", t.headers)
	return s.costOf(r)
}

// attacked is a serve in another process. Its callers are bound to a rate: what is refused for that is sent again.
type attacked struct {
	address   string
	allocated uint64 // in all, up to the latest request
}

func (a *attacked) costOf(r *http.Request) (c cost) {
	if *servingPID != 0 {
		before := a.resident("VmRSS:")
		_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", *servingPID), []byte("5"), 0) // its peak begins anew
		c, _ = a.answer(r)
		c.allocated = max(a.resident("VmHWM:"), before) - before
		return c
	}
	c, _ = a.answer(r)
	before := a.allocated
	if a.scrape() == nil {
		c.allocated = a.allocated - before
	}
	return c
}

// resident returns a number of bytes from the status of the process.
func (a *attacked) resident(name string) uint64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", *servingPID))
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name); ok {
			kB, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kB << 10
		}
	}
	return 0
}

func (a *attacked) scrape() error {
	r, err := http.NewRequest(http.MethodGet, a.address+"/metrics", strings.NewReader(""))
	if err != nil {
		return err
	}
	_, text := a.answer(r)
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, "go_memstats_alloc_bytes_total "); ok {
			total, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			a.allocated = uint64(total)
			return err
		}
	}
	return fmt.Errorf("%s does not say what it has allocated", r.URL)
}

// answer returns the status 0 if there is no answer.
func (a *attacked) answer(r *http.Request) (c cost, text string) {
	address, err := url.Parse(a.address)
	if err != nil {
		return c, ""
	}
	r.URL.Scheme, r.URL.Host, r.Host = address.Scheme, address.Host, address.Host
	for {
		began := time.Now()
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return c, ""
		}
		all, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			return c, ""
		}
		if response.StatusCode != http.StatusTooManyRequests {
			return cost{took: time.Since(began), status: response.StatusCode}, string(all)
		}
		<-time.After(100 * time.Millisecond)
		if r.Body, err = r.GetBody(); err != nil {
			return c, ""
		}
	}
}

func (s *search) keep(t tried) {
	score := func(t tried) float64 { return float64(t.cost.allocated) + t.cost.took.Seconds()*(100<<20) }
	pool := append(s.pool[t.e.ID], t)
	slices.SortStableFunc(pool, func(a, b tried) int { return cmp.Compare(score(b), score(a)) })
	s.pool[t.e.ID] = pool[:min(len(pool), pooled)]
}
