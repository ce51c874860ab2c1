package api

import (
	"net/http"
	"testing"

	"github.com/windlass-go/windlass"
)

func TestMetrics_RequireRoleViewAndExistOnlyIfConfigured(t *testing.T) {
	b := newBench(t, nil)
	if w := b.want(200, "", request("GET", "/metrics", "")); w.Body.String() != "a_metric 1\n" {
		t.Errorf("they are %q", w.Body)
	}
	b.want(421, "host", request("GET", "/metrics", "", host("evil.example")))
	without := newBench(t, func(c *Config) { c.Metrics = nil })
	without.want(404, "no_endpoint", request("GET", "/metrics", ""))
	closed := newBench(t, func(c *Config) {
		c.Authenticate = func(r *http.Request) (Caller, bool) {
			return Caller{Name: "x", Role: RoleView}, r.Header.Get("X") != ""
		}
	})
	closed.want(401, "unauthorized", request("GET", "/metrics", ""))
	closed.want(200, "", request("GET", "/metrics", "", header("X", "1")))
}

func TestTaskCounts_FollowTheTasks(t *testing.T) {
	b := newBench(t, nil)
	if counts := b.server.TaskCounts(); counts != nil {
		t.Errorf("before it follows they are %v", counts)
	}
	b.run()
	b.submit(windlass.Submission{ID: "a"}, windlass.Submission{ID: "b"}, windlass.Submission{ID: "c", Spec: windlass.Spec{Needs: []string{"a"}}})
	b.eventually("two are pending and one is blocked", func() bool {
		counts := b.server.TaskCounts()
		return counts[windlass.StatusPending] == 2 && counts[windlass.StatusBlocked] == 1
	})
	for _, id := range []string{"a", "b"} {
		must(t, b.client.Delete(t.Context(), id))
	}
	b.eventually("one is pending", func() bool {
		counts := b.server.TaskCounts()
		return counts[windlass.StatusPending] == 1 && counts[windlass.StatusBlocked] == 0 && len(counts) == len(windlass.Statuses)
	})
}

func TestSubmit_BelongsToTheTraceOfTheRequest(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	own := "00-11111111111111111111111111111111-2222222222222222-00"
	b := newBench(t, nil)
	with := func(value string) func(*http.Request) { return header("traceparent", value) }
	b.want(201, "", request("POST", "/v1/tasks", `{"id":"a"}`, with(trace)))
	b.want(200, "", request("POST", "/v1/submissions", `[{"id":"b"},{"id":"c","trace":"`+own+`"}]`, with(trace)))
	b.want(201, "", request("POST", "/v1/tasks", `{"id":"d"}`, with("garbage")))
	b.want(422, "invalid", request("POST", "/v1/tasks", `{"id":"e","trace":"garbage"}`))
	for id, want := range map[string]string{"a": trace, "b": trace, "c": own, "d": ""} {
		if d, err := b.client.Task(t.Context(), id); err != nil || d.Spec.Trace != want {
			t.Errorf("%s is in %q, want %q: %v", id, d.Spec.Trace, want, err)
		}
	}
}
