package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/tree"
)

func TestProblem_OfManyMistakesIsCheap(t *testing.T) {
	b := newBench(t, func(c *Config) { c.LocalRole = RoleView })
	var body strings.Builder
	body.WriteString(`{"ids":["a"]`)
	for i := range 100_000 {
		fmt.Fprintf(&body, `,"unknown%d":0`, i)
	}
	body.WriteString("}")
	// If each mistake showed the whole body, this would take hours.
	b.want(422, "invalid", request("POST", "/v1/commands/preview", body.String()))
}

// Regression: of two fields with a name the decoder took the last.
func TestBody_AFieldThatIsThereTwiceIsRefusedAndNamed(t *testing.T) {
	b := newBench(t, nil)
	b.submit(windlass.Submission{ID: "there", Spec: windlass.Spec{Type: "t"}, Props: json.RawMessage(`{"n":1}`)})
	for _, c := range []struct{ method, path, body, field string }{
		{"POST", "/v1/tasks", `{"id":"a","id":"b"}`, "id"},
		{"POST", "/v1/tasks", `{"id":"a","retry":{"min":"1s","min":"2s"}}`, "retry.min"},
		{"POST", "/v1/tasks", `{"id":"a","require":{"zone":"x","zone":"y"}}`, "require.zone"},
		{"POST", "/v1/tasks", `{"id":"a","props":{"steps":[{"url":"x","url":"y"}]}}`, "props.steps[0].url"},
		{"POST", "/v1/submissions", `[{"id":"a"},{"id":"b","type":"t","type":"u"}]`, "[1].type"},
		{"POST", "/v1/submissions/preview", `[{"id":"a","tags":{"x":"1","x":"2"}}]`, "[0].tags.x"},
		{"PATCH", "/v1/tasks/there", `{"props":{"n":2,"n":3}}`, "props.n"},
		{"POST", "/v1/tasks/there/commands", `{"message":"retry","patch":{"props":{"n":2,"n":3}}}`, "patch.props.n"},
		{"POST", "/v1/tree/jobs", `{"name":"a","type":"t","data":{"n":1,"n":2}}`, "data.n"},
		{"POST", "/v1/tree/batches", `[{"name":"a","type":"t","name":"b"}]`, "[0].name"},
		{"POST", "/v1/prune", `{"keep":1,"keep":2}`, "keep"},
	} {
		w := b.want(400, "malformed", request(c.method, c.path, c.body))
		if p := read[Problem](b, w); !strings.Contains(p.Detail, fmt.Sprintf("%q is there twice", c.field)) {
			t.Errorf("%s %s: %s", c.method, c.body, p.Detail)
		}
	}
	if tasks, err := b.client.Tasks(t.Context(), windlass.Filter{}); err != nil || len(tasks) != 1 {
		t.Errorf("something was submitted: %v, %v", tasks, err)
	}
}

func TestAudit_NamesAreBounded(t *testing.T) {
	b := newBench(t, nil)
	long := strings.Repeat("x", 1<<20)
	b.do(request("POST", "/v1/tasks", `{"id":"`+long+`","type":"`+long+`"}`))
	b.do(request("POST", "/v1/prune", `{"dry_run":true,"selection":{"id_prefix":"`+long+`"}}`))
	b.log.mu.Lock()
	defer b.log.mu.Unlock()
	if n := b.log.lines.Len(); n > 16<<10 {
		t.Errorf("two records have %d bytes", n)
	}
}

func TestAudit_RecordsChangesOfCallersWithoutAName(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Limits.Rate, c.Limits.RateBurst = 1e-6, 3
		c.Authenticate = func(r *http.Request) (Caller, bool) { return Caller{Role: RoleAdmin}, r.Header.Get("X-User") != "" }
	})
	for range 3 {
		b.do(request("POST", "/v1/tasks", `{"id":"a"}`))
	}
	b.log.records(b)
	b.want(201, "", request("POST", "/v1/tasks", `{"id":"a"}`, header("X-User", "x")))
	if n := len(b.log.records(b)); n != 1 {
		t.Errorf("%d records of a change", n)
	}
}

// A merge patch may be called so, and by nothing else than its name or JSON; only patches may.
func TestPatch_IsAcceptedByItsOwnMediaType(t *testing.T) {
	b := newBench(t, nil)
	b.submit(windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "t"}, Props: json.RawMessage(`{"n":1,"m":2}`)})
	for media, body := range map[string]string{
		"application/merge-patch+json":                `{"props":{"n":null}}`,
		"application/merge-patch+json; charset=utf-8": `{"priority":7}`,
		"application/json":                            `{"type":null}`,
	} {
		b.want(200, "", request("PATCH", "/v1/tasks/a", body, header("Content-Type", media)))
	}
	task, err := b.client.Task(t.Context(), "a")
	must(t, err)
	if string(task.Props) != `{"m":2}` || task.Priority != 7 || task.Type != "" {
		t.Errorf("props %s, priority %d, type %q", task.Props, task.Priority, task.Type)
	}
	for _, media := range []string{"application/json-patch+json", "application/merge-patch", "text/plain", ""} {
		w := b.want(415, "media_type", request("PATCH", "/v1/tasks/a", `{"priority":8}`, header("Content-Type", media)))
		if !strings.Contains(w.Body.String(), "application/json or application/merge-patch+json") {
			t.Errorf("%s: %s", media, w.Body)
		}
	}
	b.want(415, "media_type", request("POST", "/v1/tasks", `{"id":"b"}`, header("Content-Type", "application/merge-patch+json")))
	// What the bytes of a body mean, it does not say twice.
	b.want(415, "media_type", request("POST", "/v1/tasks", `{"id":"b"}`, header("Content-Type", "application/json; charset=latin1")))
	b.want(415, "media_type", request("POST", "/v1/tasks", `{"id":"b"}`, header("Content-Encoding", "gzip")))
	b.want(201, "", request("POST", "/v1/tasks", `{"id":"b"}`, header("Content-Type", `application/json; charset="UTF-8"`), header("Content-Encoding", "identity")))
	if w := b.want(200, "", request("GET", "/openapi.json", "")); strings.Count(w.Body.String(), `"application/merge-patch+json"`) != 1 {
		t.Error("the document does not name it for one operation")
	}
	for _, body := range []string{`null`, `7`, `[]`, `"text"`} { // RFC 7396 would replace the task by it
		b.want(422, "invalid", request("PATCH", "/v1/tasks/a", body))
	}
}

func TestCommand_AKeyOfOtherCaseEscapesNoCheck(t *testing.T) {
	b := newBench(t, nil)
	b.submit(windlass.Submission{ID: "a"})
	for path, rest := range map[string]string{"/v1/tasks/a/commands": "", "/v1/commands": `,"ids":["a"]`} {
		b.want(422, "invalid", request("POST", path, `{"message":"kill","MESSAGE":"complete"`+rest+`}`))
	}
}

func TestFilter_OfVeryManyIsRefused(t *testing.T) {
	b := newBench(t, func(c *Config) { c.LocalRole = RoleView })
	many := strings.TrimSuffix(strings.Repeat(`"completed",`, filterMax+1), ",")
	b.want(422, "invalid", request("POST", "/v1/commands/preview", `{"selection":{"types":[`+many+`]}}`))
	b.want(422, "invalid", request("POST", "/v1/commands/preview", `{"selection":{"statuses":[`+many+`]}}`))
	for path, name := range map[string]string{"/v1/tasks": "type", "/v1/count": "node", "/v1/tree/jobs": "type"} {
		query := strings.TrimSuffix(strings.Repeat(name+"=a&", filterMax+1), "&")
		b.want(422, "invalid", request("GET", path+"?"+query, ""))
	}
}

func TestPattern_ThatIsSlowEndsWithTheRequest(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Limits.RequestTimeout = 20 * time.Millisecond })
	jobs, err := tree.New(b.store.Broker(), "/test")
	must(t, err)
	requests := make([]tree.Request, 500)
	for i := range requests {
		requests[i] = tree.Request{Name: fmt.Sprintf("%s%d", strings.Repeat("a", 100), i), Type: "t"}
	}
	_, err = jobs.Queue(t.Context(), requests...)
	must(t, err)
	slow := url.QueryEscape(strings.Repeat("(a?){33}", 3))
	b.want(504, "timeout", request("GET", "/v1/tree/jobs?name_matches="+slow, ""))
}

// byHeader takes the caller from a request's headers.
func byHeader(r *http.Request) (Caller, bool) {
	role, err := ParseRole(r.Header.Get("X-Role"))
	return Caller{Name: r.Header.Get("X-Name"), Role: role}, err == nil
}

func as(name string, role Role) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set("X-Name", name)
		r.Header.Set("X-Role", role.String())
	}
}

func TestRequests_OfViewersLeaveRoomForOthers(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Limits.RequestsMax, c.Authenticate = 4, byHeader })
	ctx, cancel := context.WithCancel(t.Context())
	b.broker.hangs.Store(true)
	var waiting sync.WaitGroup
	for i := range 3 {
		waiting.Go(func() { b.do(request("GET", "/v1/nodes", "", as(fmt.Sprint(i), RoleView)).WithContext(ctx)) })
	}
	b.eventually("three ask the broker", func() bool { return b.broker.calls.Load() == 3 })
	b.want(503, "busy", request("GET", "/v1/nodes", "", as("3", RoleView)))
	waiting.Go(func() { b.do(request("GET", "/v1/nodes", "", as("4", RoleOperate)).WithContext(ctx)) })
	b.eventually("a caller with more rights asks it too", func() bool { return b.broker.calls.Load() == 4 })
	cancel()
	waiting.Wait()
}
