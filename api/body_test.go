package api

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
)

// shapes are values of about a number of bytes that take more when they are decoded, or work when they
// are checked.
var shapes = map[string]func(size int) string{
	"empty objects":     func(n int) string { return listOf("{}", n) },
	"empty lists":       func(n int) string { return listOf("[]", n) },
	"zeros":             func(n int) string { return listOf("0", n) },
	"empty texts":       func(n int) string { return listOf(`""`, n) },
	"one-field objects": func(n int) string { return listOf(`{"":0}`, n) },
	"deep lists":        func(n int) string { return strings.Repeat("[", n/2) + strings.Repeat("]", n/2) },
	"deep objects":      func(n int) string { return strings.Repeat(`{"a":`, n/6) + "0" + strings.Repeat("}", n/6) },
	"deep with a text": func(n int) string {
		return strings.Repeat(`{"a":`, 900) + `"` + strings.Repeat("x", n-6*900) + `"` + strings.Repeat("}", 900)
	},
	"many fields": func(n int) string {
		var b strings.Builder
		b.WriteString(`{"x":0`)
		for i := 0; b.Len() < n-16 && i < bodyValuesMax-20; i++ {
			fmt.Fprintf(&b, `,"%x":0`, i)
		}
		return b.String() + "}"
	},
	"a text":      func(n int) string { return `"` + strings.Repeat("x", n-2) + `"` },
	"many values": func(int) string { return listOf(`{"":0}`, 7*(bodyValuesMax/2-10)) },
	"as many tasks as there may be": func(n int) string {
		items := make([]string, BatchMax)
		for i := range items {
			items[i] = fmt.Sprintf(`{"id":"t%d","type":"t","props":"%s"}`, i, strings.Repeat("x", max(0, n/BatchMax-40)))
		}
		return "[" + strings.Join(items, ",") + "]"
	},
	"as many jobs as there may be": func(n int) string {
		items := make([]string, BatchMax)
		for i := range items {
			items[i] = fmt.Sprintf(`{"name":"j%d","type":"t","data":"%s"}`, i, strings.Repeat("x", max(0, n/BatchMax-42)))
		}
		return "[" + strings.Join(items, ",") + "]"
	},
	"many items": func(n int) string {
		items := make([]string, BatchMax)
		for i := range items {
			items[i] = fmt.Sprintf(`{"id":"t%d","type":"t","props":%s}`, i, listOf("0", max(2, n/BatchMax-60)))
		}
		return "[" + strings.Join(items, ",") + "]"
	},
}

func listOf(item string, size int) string {
	return "[" + strings.TrimSuffix(strings.Repeat(item+",", size/(len(item)+1)), ",") + "]"
}

// worst are the shapes that every field is tried with, too.
var worst = []string{"a text", "many fields", "many values"}

// attack is a body that costs as much as somebody has found.
type attack struct {
	name string
	body func() string
}

// attacksOn returns the bodies that an operation is tried with: each shape as the body, as each field of
// it, if it is among the worst, and as a field of the items of a list.
func attacksOn(e *endpoint, size int) (all []attack) {
	for _, shape := range slices.Sorted(maps.Keys(shapes)) {
		value := func() string { return shapes[shape](size) }
		all = append(all, attack{shape, value})
		t, before, after := e.body, `{"id":"a","name":"a","message":"pause","type":"t",`, "}"
		if t.Kind() == reflect.Slice {
			t, before, after = t.Elem(), "["+before, "}]"
		}
		if t.Kind() == reflect.Map {
			all = append(all, attack{"props: " + shape, func() string { return `{"props":` + value() + "}" }})
			continue
		}
		known := map[string]bool{}
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			known[name] = name != "" && name != "-"
		}
		head := ""
		for part := range strings.SplitSeq(strings.Trim(before, "[{,"), ",") {
			if name := strings.Split(part, `"`)[1]; known[name] {
				head += part + ","
			}
		}
		if !slices.Contains(worst, shape) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(known)) {
			if known[name] && !strings.Contains(head, `"`+name+`"`) {
				start := strings.TrimRight(before, `"abcdefghijklmnopqrstuvwxyz:,`) + head + `"` + name + `":`
				all = append(all, attack{name + ": " + shape, func() string { return start + value() + after }})
			}
		}
	}
	return all
}

// cost is what a request took.
type cost struct {
	allocated uint64
	took      time.Duration
	status    int
}

func costOf(s *Server, e *endpoint, a attack) cost {
	path := strings.NewReplacer("{id}", "a", "{name}", "a", "{path}", "a").Replace(e.Path)
	return costOfRequest(s, request(e.Method, path, a.body()))
}

func costOfRequest(s *Server, r *http.Request) (c cost) {
	var before, after runtime.MemStats
	w := httptest.NewRecorder()
	runtime.ReadMemStats(&before)
	began := time.Now()
	s.ServeHTTP(w, r)
	c.took, c.status = time.Since(began), w.Code
	runtime.ReadMemStats(&after)
	c.allocated = after.TotalAlloc - before.TotalAlloc
	return c
}

// withBodies are the operations that take a body.
func (s *Server) withBodies() (all []*endpoint) {
	for _, e := range s.endpoints {
		if e.hasBody {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *endpoint) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// A body of 4 MiB took 3.6 GB, of a caller who may only look; a patch of 3.5 MB took minutes.
func TestBody_NoOperationTakesMuchMoreThanItsBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector allocates, too")
	}
	const size, bound = 512 << 10, 120 << 20
	tried := map[string]int{}
	b := newBench(t, nil)
	for _, e := range b.server.withBodies() {
		var most cost
		var by string
		for _, a := range attacksOn(e, size-200) {
			if field, _, is := strings.Cut(a.name, ": "); is && tried[field] >= len(worst) {
				continue // in the body of another operation
			} else if is {
				tried[field]++
			}
			c := costOf(b.server, e, a)
			if c.allocated > most.allocated {
				most, by = c, a.name
			}
			if c.allocated > bound || c.status >= 500 {
				t.Errorf("%s, %s: %d MB allocated, status %d in %v", e.ID, a.name, c.allocated>>20, c.status, c.took)
			}
		}
		t.Logf("%-20s %4d MB in %8v, status %d: %s", e.ID, most.allocated>>20, most.took.Round(time.Millisecond), most.status, by)
	}
}

// Each mistake in a map costs more than a kilobyte: a hundred thousand wrong labels took 352 MB.
func TestBody_AMapHasFewMembers(t *testing.T) {
	b := newBench(t, nil)
	for path, body := range map[string]string{
		"/v1/tasks":       `{"id":"a","require":%s}`,
		"/v1/submissions": `[{"id":"a"},{"id":"b","tags":%s}]`,
		"/v1/tree/jobs":   `{"name":"a","type":"t","prefer":%s}`,
		"/v1/commands":    `{"message":"pause","selection":{"tags":%s}}`,
	} {
		for _, value := range []string{`0`, `"x"`} {
			labels := strings.ReplaceAll(shapes["many fields"](4<<20), ":0", ":"+value)
			r := request("POST", path, fmt.Sprintf(body, labels))
			c := costOfRequest(b.server, r)
			if c.status != 422 || c.allocated > 32<<20 {
				t.Errorf("%s with labels like %s takes %d MB, and is answered %d", path, value, c.allocated>>20, c.status)
			}
		}
	}
	w := b.do(request("POST", "/v1/submissions", `[{"id":"a"},{"id":"b","tags":`+shapes["many fields"](bodyMembersMax*10)+`}]`))
	if text := w.Body.String(); w.Code != 422 || !strings.Contains(text, `"body[1].tags"`) || !strings.Contains(text, "has more than 256 members") {
		t.Errorf("%d: %s", w.Code, text)
	}
}

// One caller cannot have more than one large body in memory, whoever else then has room.
func TestBody_OneLargeOneOfACallerAtATime(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Authenticate = byHeader })
	ctx, cancel := context.WithCancel(t.Context())
	large := listOf(`{"id":"a","props":"`+strings.Repeat("x", 1000)+`"}`, 2*smallBodyBytes)
	for i := range strings.Count(large, `"a"`) {
		large = strings.Replace(large, `"a"`, fmt.Sprintf(`"t%d"`, i), 1)
	}
	b.broker.hangs.Store(true)
	var waiting sync.WaitGroup
	waiting.Go(func() { b.do(request("POST", "/v1/submissions", large, as("greedy", RoleOperate)).WithContext(ctx)) })
	b.eventually("the first is submitted", func() bool { return b.broker.calls.Load() > 0 })
	before := b.broker.calls.Load()
	for range 95 {
		if w := b.want(429, "rate", request("POST", "/v1/submissions", large, as("greedy", RoleOperate))); w.Header().Get("Retry-After") == "" || w.Header().Get("Connection") != "close" {
			t.Fatalf("%v", w.Header())
		}
	}
	b.want(429, "rate", request("POST", "/v1/submissions", large, as("greedy", RoleOperate), func(r *http.Request) { r.ContentLength = -1 }))
	if n := b.broker.calls.Load(); n != before {
		t.Errorf("those that were refused made %d calls", n-before)
	}
	waiting.Go(func() {
		b.do(request("POST", "/v1/tasks", `{"id":"small"}`, as("greedy", RoleOperate)).WithContext(ctx))
	})
	b.eventually("a small one of the same caller goes on", func() bool { return b.broker.calls.Load() > before })
	before = b.broker.calls.Load()
	waiting.Go(func() { b.do(request("POST", "/v1/submissions", large, as("other", RoleOperate)).WithContext(ctx)) })
	b.eventually("and a large one of another", func() bool { return b.broker.calls.Load() > before })
	cancel()
	waiting.Wait()
	b.broker.hangs.Store(false)
	b.want(200, "", request("POST", "/v1/submissions", large, as("greedy", RoleOperate)))
	if l := b.server.config.Limits.BodyBytesMax; !b.server.budget.large.TryAcquire(4*l) || !b.server.budget.small.TryAcquire(l) {
		t.Error("what was held is not given back")
	}
}

// Large bodies of many callers wait for each other, and nobody else for them.
func TestBody_ASmallOneWaitsForNoLargeOne(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Authenticate = byHeader })
	large := b.server.budget.large
	if !large.TryAcquire(4 * b.server.config.Limits.BodyBytesMax) {
		t.Fatal("something is under way")
	}
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		b.do(request("POST", "/v1/submissions", listOf(`{"id":"a"}`, 2*smallBodyBytes), as("one", RoleOperate)).WithContext(ctx))
	})
	b.eventually("a large one waits", func() bool { return !large.TryAcquire(0) })
	b.want(201, "", request("POST", "/v1/tasks", `{"id":"small"}`, as("other", RoleOperate)))
	cancel()
	waiting.Wait()
}

// What encoding/json takes for a field is none, if it is written in another case.
func TestBody_AFieldInAnotherCaseIsRefusedEverywhere(t *testing.T) {
	b := newBench(t, nil)
	b.submit(windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "t"}, Props: json.RawMessage(`{"n":1}`)})
	for _, c := range []struct{ method, path, body, field string }{
		{"POST", "/v1/tasks/a/commands", `{"message":"pause","Message":"delete"}`, "body.Message"},
		{"POST", "/v1/commands", `{"message":"pause","ids":["a"],"IDS":["b"]}`, "body.IDS"},
		{"POST", "/v1/commands", `{"message":"pause","selection":{"Types":["t"]}}`, "body.selection.Types"},
		{"POST", "/v1/tasks", `{"ID":"b"}`, "body.ID"},
		{"POST", "/v1/submissions", `[{"id":"b"},{"id":"c","retry":{"Min":"1s"}}]`, "body[1].retry.Min"},
		{"PATCH", "/v1/tasks/a", `{"PROPS":{"n":2}}`, "body.PROPS"},
		{"PATCH", "/v1/tasks/a", `{"priority":1,"Priority":2}`, "body.Priority"},
		{"PATCH", "/v1/tasks/a", `{"retry":{"Errors":2}}`, "body.retry.Errors"},
		{"POST", "/v1/tree/jobs", `{"name":"j","Type":"t"}`, "body.Type"},
		{"POST", "/v1/prune", `{"keep":1,"Dry_Run":false}`, "body.Dry_Run"},
	} {
		w := b.want(422, "invalid", request(c.method, c.path, c.body))
		if p := read[Problem](b, w); p.Field != c.field || !strings.Contains(p.Limit+p.Detail, "it is written") {
			t.Errorf("%s %s: %+v", c.path, c.body, p)
		}
	}
	tasks, err := b.client.Tasks(t.Context(), windlass.Filter{})
	if must(t, err); len(tasks) != 1 || tasks[0].Status != windlass.StatusPending || tasks[0].Priority != 0 {
		t.Errorf("something was changed: %+v", tasks)
	}
}

func TestMethod_AllowNamesAllThatAre(t *testing.T) {
	b := newBench(t, nil)
	w := b.want(405, "method", request("PUT", "/v1/tasks/a", ""))
	if got := w.Header().Get("Allow"); got != "GET, PATCH, DELETE" {
		t.Errorf("Allow: %s", got)
	}
}
