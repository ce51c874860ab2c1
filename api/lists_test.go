package api

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
)

func TestLists_CostTheBrokerNothingWhileTheServerFollowsIt(t *testing.T) {
	b := newBench(t, nil)
	address := b.listen()
	v := b.view(address, "", "")
	b.submit(windlass.Submission{ID: "a"}, windlass.Submission{ID: "b"}, windlass.Submission{ID: "c"})
	for _, id := range []string{"a", "b", "c"} {
		v.until("task", `"id":"`+id+`"`)
	}
	b.eventually("everything is followed", func() bool { return b.broker.watches.Load() == 6 })
	calls := b.broker.calls.Load()
	for range 100 {
		b.want(200, "", request("GET", "/v1/tasks?limit=1", ""))
	}
	w := b.want(200, "", request("GET", "/v1/tasks?limit=2&continue=a", ""))
	if tasks := read[[]windlass.TaskInfo](b, w); len(tasks) != 2 || tasks[0].ID != "b" || w.Header().Get("Link") != "" {
		t.Errorf("the second page is %+v, and then %q", tasks, w.Header().Get("Link"))
	}
	if w := b.want(200, "", request("GET", "/v1/count", "")); !strings.Contains(w.Body.String(), `"pending":3`) {
		t.Errorf("it counts %s", w.Body)
	}
	b.want(200, "", request("POST", "/v1/commands/preview", `{"selection":{"types":["default"]}}`))
	if n := b.broker.calls.Load() - calls; n > 0 {
		t.Errorf("lists cost the broker %d calls", n)
	}
}

func TestLists_ShowEarlierSubmissions(t *testing.T) {
	b := newBench(t, nil)
	b.listen()
	b.eventually("everything is followed", func() bool { return b.broker.watches.Load() == 6 })
	for i := range 50 {
		b.want(201, "", request("POST", "/v1/tasks", fmt.Sprintf(`{"id":"t%02d","type":"x"}`, i)))
		w := b.want(200, "", request("GET", fmt.Sprintf("/v1/tasks?id_prefix=t%02d", i), ""))
		if tasks := read[[]windlass.TaskInfo](b, w); len(tasks) != 1 {
			t.Fatalf("after submission %d there are %d of it", i, len(tasks))
		}
		if i%2 == 0 {
			b.want(204, "", request("DELETE", fmt.Sprintf("/v1/tasks/t%02d", i), ""))
		}
	}
	w := b.want(200, "", request("GET", "/v1/tasks", ""))
	if tasks := read[[]windlass.TaskInfo](b, w); len(tasks) != 25 {
		t.Errorf("at the end there are %d", len(tasks))
	}
}

// One token could make a server read all tasks of the broker a hundred times at once.
func TestReadings_OfEverythingAreFew(t *testing.T) {
	for _, path := range []string{"/v1/tasks?limit=1", "/v1/count", "/v1/tree", "/v1/tree/progress", "/v1/tree/jobs", "/v1/plan", "/v1/tasks/a/explain"} {
		b := newBench(t, func(c *Config) { c.Authenticate = byHeader })
		b.submit(windlass.Submission{ID: "a"})
		ctx, cancel := context.WithCancel(t.Context())
		b.broker.hangs.Store(true)
		var asking sync.WaitGroup
		ask := func(name string) {
			asking.Go(func() { b.do(request("GET", path, "", as(name, RoleView)).WithContext(ctx)) })
		}
		for range 50 {
			ask("many")
		}
		b.eventually("all are in", func() bool {
			b.server.budget.mu.Lock()
			defer b.server.budget.mu.Unlock()
			return b.server.budget.working == 50
		})
		ask("other")
		ask("third")
		most := map[bool]int64{true: 1, false: 2}[strings.HasPrefix(path, "/v1/tasks?") || path == "/v1/count"]
		b.eventually("as many ask the broker as may", func() bool { return b.broker.calls.Load() == most })
		if n := b.broker.calls.Load(); n != most {
			t.Errorf("%s: %d read at once, want %d", path, n, most)
		}
		cancel()
		asking.Wait()
		b.broker.hangs.Store(false)
		b.want(200, "", request("GET", path, "", as("many", RoleView)))
	}
}

func TestBudget_IsForEachCallerAndForAll(t *testing.T) {
	b := newBudget(Limits{ListMax: 100}.withDefaults())
	one, other, third := Caller{Name: "one"}, Caller{Name: "other"}, Caller{Name: "third"}
	for _, c := range []Caller{one, other, third} {
		if p := b.enter(c); p != nil {
			t.Fatal(p)
		}
	}
	hold := func(c Caller, tasks int) (func(), *Problem) {
		within, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		return b.hold(within, c, tasks)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if release, p := b.hold(over, one, 100); p != nil {
		t.Errorf("nothing is in the way of a request whose time is over: %+v", p)
	} else {
		release()
	}
	first, p := hold(one, 99)
	if p != nil {
		t.Fatal(p)
	}
	if _, p := hold(one, 2); p == nil || p.Code != "busy" || p.retryAfter == 0 {
		t.Errorf("more than one may have: %+v", p)
	}
	if _, p := hold(one, 1); p != nil {
		t.Errorf("as much as one may have: %+v", p)
	}
	second, p := hold(other, 1e6) // no list is longer than the longest
	if p != nil {
		t.Fatal(p)
	}
	if _, p := hold(third, 1); p == nil {
		t.Error("more than all may have")
	}
	first()
	if _, p := hold(third, 1); p != nil {
		t.Errorf("after one has given back: %+v", p)
	}
	second()
	b.leave(one)
	b.leave(other)
	b.leave(third)
	if len(b.callers) != 0 || b.working != 0 {
		t.Errorf("%d callers are remembered, %d requests", len(b.callers), b.working)
	}
}

func TestAnswers_GiveTheirBudgetBack(t *testing.T) {
	b := newBench(t, nil)
	for range 3 { // each holds all that a caller may have
		b.want(200, "", request("GET", "/v1/tasks?limit=10000", ""))
		b.want(200, "", request("GET", "/v1/tree", ""))
		b.want(422, "invalid", request("GET", "/v1/plan?join=%2F", ""))
	}
	if n := len(b.server.budget.callers); n > 0 {
		t.Errorf("%d callers are under way", n)
	}
}

func TestProblems_RepeatLittleOfTheInput(t *testing.T) {
	b := newBench(t, nil)
	long := strings.Repeat("1", 5000)
	for _, body := range []string{
		`{"id":"a","type":"x","priority":` + long + `}`, `{"id":"a","type":"x","priority":"` + long + `"}`, `{"id":"a","type":"x","` + long + `":1}`,
		`{"id":"` + long + `","type":"x"}`, `{"id":"a","type":"x","not_before":"` + long + `"}`, `{"id":"a","type":"` + long + `"}`, `{"id":"a","needs":["` + long + `"]}`,
	} {
		if w := b.do(request("POST", "/v1/tasks", body)); w.Code < 400 || w.Body.Len() > 4096 {
			t.Errorf("%.60s…: %d, with %d bytes", body, w.Code, w.Body.Len())
		}
	}
	for _, query := range []string{"limit=" + long, "status=" + long, long + "=1", "id_prefix=" + long, "type=%" + long} {
		if w := b.do(request("GET", "/v1/tasks?"+query, "")); w.Code != 200 && w.Body.Len() > 4096 {
			t.Errorf("%.60s…: %d, with %d bytes", query, w.Code, w.Body.Len())
		}
	}
}
