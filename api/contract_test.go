package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/clock"
)

// operation is one of the OpenAPI document.
type operation struct {
	id, method, path string
	responses        map[string]map[string]any
	body             bool
	public           bool
}

// contract is the document with the answers seen so far.
type contract struct {
	*bench
	checker
	operations map[string]*operation
	// seen are the statuses that every operation has answered, by its ID.
	seen map[string]map[int]bool
}

func newContract(b *bench) *contract {
	b.Helper()
	var document struct {
		OpenAPI    string                               `json:"openapi"`
		Servers    []map[string]string                  `json:"servers"`
		Paths      map[string]map[string]map[string]any `json:"paths"`
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	w := b.want(200, "", request("GET", b.config.Prefix+"/openapi.json", ""))
	must(b, json.Unmarshal(w.Body.Bytes(), &document))
	if !strings.HasPrefix(document.OpenAPI, "3.1.") {
		b.Errorf("it is OpenAPI %s", document.OpenAPI)
	}
	c := &contract{bench: b, checker: checker{document.Components.Schemas}, operations: map[string]*operation{}, seen: map[string]map[int]bool{}}
	for path, methods := range document.Paths {
		for method, described := range methods {
			op := &operation{id: described["operationId"].(string), method: strings.ToUpper(method), path: path, responses: map[string]map[string]any{}}
			for status, response := range described["responses"].(map[string]any) {
				op.responses[status] = response.(map[string]any)
			}
			op.body = described["requestBody"] != nil
			op.public = described["x-windlass-role"] == nil
			c.operations[op.id], c.seen[op.id] = op, map[int]bool{}
		}
	}
	return c
}

// saw checks an answer against the document.
func (c *contract) saw(id string, status int, header http.Header, body []byte) {
	c.Helper()
	op := c.operations[id]
	if op == nil {
		c.Fatalf("the document has no operation %s", id)
	}
	response := op.responses[strconv.Itoa(status)]
	if response == nil {
		c.Fatalf("%s: the status %d is not in the document: %s", id, status, body)
	}
	c.seen[id][status] = true
	content, _ := response["content"].(map[string]any)
	if content == nil {
		if len(body) > 0 {
			c.Errorf("%s: %d has a body, and should have none: %s", id, status, body)
		}
		return
	}
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	described, _ := content[media].(map[string]any)
	if described == nil {
		c.Fatalf("%s: %d is %q, which is not in the document", id, status, media)
	}
	if media == "text/event-stream" || media == "text/plain" {
		return
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		c.Fatalf("%s: %d: %v: %s", id, status, err, body)
	}
	if schema, _ := described["schema"].(map[string]any); schema != nil {
		if err := c.check(schema, value, id); err != nil {
			c.Errorf("%d: %v: %s", status, err, body)
		}
	}
}

// call is one request of an operation, and the wanted status.
type call struct {
	id     string
	target string // value of the path's variable, and query
	body   string
	want   int
}

// request makes it from the document's path.
func (c *contract) request(k call, options ...func(*http.Request)) *http.Request {
	c.Helper()
	op := c.operations[k.id]
	if op == nil {
		c.Fatalf("the document has no operation %s", k.id)
	}
	path := op.path
	name, query, _ := strings.Cut(k.target, "?")
	if i := strings.Index(path, "{"); i >= 0 {
		path = path[:i] + url.PathEscape(name) + path[strings.Index(path, "}")+1:]
	}
	if query != "" {
		path += "?" + query
	}
	return request(op.method, c.config.Prefix+path, k.body, options...)
}

// ask makes a call to a server, checks the answer and returns its body.
func (c *contract) ask(s *Server, k call, options ...func(*http.Request)) []byte {
	c.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, c.request(k, options...))
	if w.Code != k.want {
		c.Errorf("%s %s: status %d, want %d: %s", k.id, k.target, w.Code, k.want, w.Body)
	}
	c.saw(k.id, w.Code, w.Result().Header, w.Body.Bytes())
	return w.Body.Bytes()
}

// examples are valid requests of all operations, whatever exists.
var examples = map[string]call{
	"live": {}, "ready": {}, "openapi": {}, "version": {}, "metrics": {}, "whoami": {}, "health": {}, "charts": {}, "listTasks": {target: "?status=running&limit=5"}, "countTasks": {}, "listFailures": {}, "countInterruptions": {target: "?id=a"},
	"submitTask": {body: `{"id":"x","type":"none"}`}, "submitTasks": {body: `[{"id":"y"},{"id":"z"}]`},
	"getTask": {target: "x"}, "updateTask": {target: "x", body: `{"priority":1}`}, "deleteTask": {target: "x"}, "explainTask": {target: "x"}, "taskHistory": {target: "x"}, "taskProgress": {target: "x"},
	"waitForTask": {target: "x?status=running&timeout=1ms"}, "pruneTasks": {body: `{"keep":100000,"dry_run":true}`},
	"commandTask": {target: "x", body: `{"message":"pause"}`}, "commandTasks": {body: `{"message":"pause","ids":["x"]}`},
	"previewSubmissions": {body: `[{"id":"planned","type":"none"}]`},
	"previewCommand":     {body: `{"selection":{"types":["none"]}}`},
	"listTypes":          {}, "commandType": {body: `{"type":"t","command":"pause"}`},
	"listNodes": {}, "getNode": {target: "n1"}, "commandNode": {target: "n1", body: `{"command":"freeze"}`}, "listCordons": {}, "listDeaths": {}, "plan": {target: "?join=n2"},
	"showTree": {}, "treeProgress": {}, "listJobs": {}, "getJob": {target: "a_b"}, "initTree": {}, "queueJob": {body: `{"name":"a","type":"b"}`},
	"queueJobs": {body: `[{"name":"a","type":"b"}]`}, "clearTree": {body: `{"dry_run":true}`},
	"dequeueJob":  {body: `{"type":"b","owner":"o"}`},
	"completeJob": {target: "a_b", body: `{"token":1}`}, "failJob": {target: "a_b", body: `{"token":1,"error":"no"}`}, "releaseJob": {target: "a_b", body: `{"token":1}`},
	"listElections": {}, "getElection": {target: "e1"}, "resign": {target: "e1", body: `{}`}, "events": {},
}

func (c *contract) example(id string, want int) call {
	c.Helper()
	k, ok := examples[id]
	if !ok {
		c.Fatalf("there is no example of %s", id)
	}
	k.id, k.want = id, want
	return k
}

// withNode runs a node that runs tasks of the type "run" and is a candidate of election e1.
func (b *bench) withNode() {
	b.Helper()
	node, err := windlass.NewNode(windlass.Config{Broker: b.store.Broker(), Namespace: "/test", Name: "n1", Clock: clock.Process,
		Handlers: map[string]windlass.NewHandler{"run": windlass.HandlerFunc(func(ctx context.Context, c *windlass.Claim) error {
			<-ctx.Done()
			return windlass.ErrRelease
		})}})
	must(b, err)
	e, err := node.Election("e1", election.Events{})
	must(b, err)
	must(b, e.Start())
	b.background(node.Run)
	b.eventually("the node leads", e.IsLeader)
}

func TestContract_EveryOperationAnswersAsTheDocumentSaysAndEveryErrorOccurs(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Prefix = "/fleet" })
	c := newContract(b)
	b.withNode()
	c.successes()
	c.failures()
	c.refusals()
	c.outages()
	c.slowBodies()
	c.streams()
	for id, op := range c.operations {
		for status := range op.responses {
			if n, err := strconv.Atoi(status); status != "default" && (err != nil || !c.seen[id][n]) {
				t.Errorf("%s: the status %s is in the document and has not occurred", id, status)
			}
		}
	}
	for id := range examples {
		if c.operations[id] == nil {
			t.Errorf("there is an example of %s, which is not in the document", id)
		}
	}
}

// successes walks through the life of tasks, nodes, jobs and elections.
func (c *contract) successes() {
	c.Helper()
	for _, k := range []call{
		{"live", "", "", 200}, {"ready", "", "", 200}, {"openapi", "", "", 200}, {"version", "", "", 200}, {"metrics", "", "", 200}, {"whoami", "", "", 200}, {"health", "", "", 200}, {"charts", "", "", 200},
		{"submitTask", "", `{"id":"a","type":"run","props":{"n":1},"require":{},"retry":{"errors":3,"window":"1h"},"timeout":"1h","on_failure":"skip","tags":{"tenant":"t7"}}`, 201},
		{"submitTask", "", `{"id":"a","type":"run","props":{"n":1},"require":{},"retry":{"errors":3,"window":"1h"},"timeout":"1h","on_failure":"skip","tags":{"tenant":"t7"}}`, 200},
		{"submitTasks", "", `[{"id":"b","type":"none"},{"id":"c","type":"none","props":null},{"id":"d","type":"none","needs":["c"],"not_before":"2099-01-01T00:00:00Z"}]`, 200},
		{"waitForTask", "a?status=running&timeout=20s", "", 200},
		{"listTasks", "", "", 200}, {"countTasks", "", "", 200}, {"getTask", "a", "", 200}, {"getTask", "b", "", 200}, {"explainTask", "a", "", 200},
		{"explainTask", "d", "", 200}, {"taskProgress", "a", "", 200},
		{"previewCommand", "", `{"selection":{"types":["none"]}}`, 200},
		{"previewSubmissions", "", `[{"id":"b2","type":"none"},{"id":"b","type":"none"},{"id":"b","priority":3}]`, 422},
		{"previewSubmissions", "", `[{"id":"b2","type":"none"},{"id":"b","type":"none"},{"id":"c","type":"other"},{"id":"d2","not_before":"2099-01-01T00:00:00Z"}]`, 200},
		{"listTasks", "?tag=tenant=t7&tag=tenant2&since=2026-01-02T15:04:05Z", "", 200}, {"countTasks", "?tag=tenant", "", 200}, {"previewCommand", "", `{"selection":{"tags":{"tenant":"t7"},"since":"2026-01-02T15:04:05Z"}}`, 200},
		{"commandTask", "a", `{"message":"restart"}`, 200}, {"commandTasks", "", `{"message":"restart","selection":{"types":["run"]}}`, 200}, {"waitForTask", "a?status=running&timeout=20s", "", 200},
		{"commandTask", "a", `{"message":"pause","wait":"20s"}`, 200},
		{"commandTask", "b", `{"message":"sleep","for":"2h"}`, 200},
		{"updateTask", "b", `{"priority":3,"props":{"n":{"m":null}},"require":{"zone":"x"}}`, 200}, {"updateTask", "b", `{"priority":3,"require":{"zone":"x"}}`, 200},
		{"commandTasks", "", `{"message":"kill","ids":["a","nobody"],"wait":"20s"}`, 200},
		{"commandTask", "a", `{"message":"retry"}`, 200}, {"waitForTask", "a?status=running&timeout=20s", "", 200},
		{"commandTasks", "", `{"message":"kill","ids":["a","nobody"],"wait":"20s"}`, 200},
		{"getTask", "a", "", 200}, {"deleteTask", "b", "", 204},
		{"listNodes", "", "", 200}, {"getNode", "n1", "", 200}, {"commandNode", "n1", `{"command":"drain","within":"1s"}`, 202},
		{"commandType", "", `{"type":"away","command":"pause","reason":"its database is moved"}`, 200}, {"listTypes", "", "", 200}, {"commandType", "", `{"type":"away","command":"resume"}`, 200},
		{"commandNode", "away", `{"command":"cordon","reason":"its disk"}`, 202}, {"listCordons", "", "", 200}, {"listDeaths", "", "", 200}, {"commandNode", "away", `{"command":"uncordon"}`, 202},
		{"plan", "?join=n2:weight=2,zone=east&set=n1:capacity=7", "", 200},
		{"initTree", "", "", 204}, {"queueJob", "", `{"name":"j","type":"t","data":{"n":1}}`, 200},
		{"queueJobs", "", `[{"name":"k","type":"t","parent":"j_t"},{"name":"l","type":"u","under":{"type":"t"},"name_template":"{{.Parent}}-{{.Child}}"}]`, 200},
		{"showTree", "", "", 200}, {"showTree", "?path=j_t", "", 200}, {"treeProgress", "?path=j_t", "", 200}, {"listJobs", "?state=pending&type_matches=t", "", 200},
		{"getJob", "j_t", "", 200},
		{"listElections", "", "", 200}, {"getElection", "e1", "", 200}, {"resign", "e1", `{"wait":"20s"}`, 200},
	} {
		c.ask(c.server, k)
	}
	c.ask(c.server, call{"updateTask", "c", `{"type":null}`, 200}, header("Content-Type", "application/merge-patch+json"))
	c.eventually("there is a history", func() bool { return c.do(c.request(call{id: "taskHistory", target: "a"})).Code == 200 })
	c.ask(c.server, call{"taskHistory", "a", "", 200})
	c.ask(c.server, call{"countInterruptions", "?id=a&id=nobody", "", 200})
	lease := func() string {
		var l struct {
			Token int64  `json:"token"`
			Path  string `json:"path"`
		}
		must(c, json.Unmarshal(c.ask(c.server, call{"dequeueJob", "", `{"type":"t","owner":"o","lease":"300s"}`, 200}), &l))
		return fmt.Sprint(l.Token)
	}
	c.ask(c.server, call{"releaseJob", "j_t", `{"token":` + lease() + `}`, 204})
	c.ask(c.server, call{"completeJob", "j_t", `{"token":` + lease() + `,"result":{"pages":7}}`, 204})
	c.ask(c.server, call{"getJob", "j_t", "", 200})
	c.ask(c.server, call{"failJob", "j_t/k_t", `{"token":` + lease() + `,"error":"no","permanent":true}`, 204})
	c.ask(c.server, call{"showTree", "", "", 200})
	for _, k := range []call{
		{"listFailures", "?type=t&error=no&since=2026-01-02T15:04:05Z", "", 200}, {"previewCommand", "", `{"message":"retry","selection":{"error":"no"}}`, 200},
		{"commandTasks", "", `{"message":"continue","selection":{"types":["t"]}}`, 200},
	} {
		if got := c.ask(c.server, k); !strings.Contains(string(got), "j_t|k_t") {
			c.Errorf("%s: %s", k.id, got)
		}
	}
}

// failures checks the errors that only some operations have.
func (c *contract) failures() {
	c.Helper()
	c.ask(c.server, call{"submitTask", "", `{"id":"needed","type":"none"}`, 201})
	c.ask(c.server, call{"submitTask", "", `{"id":"waits","type":"none","needs":["needed"]}`, 201})
	for _, k := range []call{
		{"submitTask", "", `{"id":"c","type":"other"}`, 409},
		{"submitTask", "", `{"id":"a","type":"other"}`, 409}, // it was killed
		{"getTask", "nobody", "", 404}, {"updateTask", "nobody", `{}`, 404}, {"updateTask", "a", `{}`, 409}, {"deleteTask", "nobody", "", 404}, {"deleteTask", "needed", "", 409}, {"explainTask", "nobody", "", 404}, {"taskHistory", "nobody", "", 404},
		{"waitForTask", "nobody?status=running", "", 404}, {"waitForTask", "a?status=running", "", 409},
		{"commandTask", "nobody", `{"message":"run"}`, 404}, {"commandTask", "a", `{"message":"run"}`, 409},
		{"getNode", "nobody", "", 404}, {"commandNode", "nobody", `{"command":"freeze"}`, 404}, {"commandNode", "nobody", `{"command":"uncordon"}`, 404}, {"commandType", "", `{"type":"nobody","command":"resume"}`, 404}, {"plan", "?leave=nobody", "", 404},
		{"showTree", "?path=no_body", "", 404}, {"treeProgress", "?path=no_body", "", 404}, {"getJob", "no_body", "", 404},
		{"queueJob", "", `{"name":"x","type":"t","parent":"no_body"}`, 404}, {"dequeueJob", "", `{"type":"nothing","owner":"o"}`, 404},
		{"completeJob", "j_t", `{"token":1}`, 409}, {"failJob", "j_t", `{"token":1,"error":"no"}`, 409}, {"releaseJob", "j_t", `{"token":1}`, 409},
		{"getElection", "nobody", "", 404}, {"resign", "nobody", `{}`, 404},
	} {
		c.ask(c.server, k)
	}
	c.ask(c.server, call{"queueJob", "", `{"name":"held","type":"h"}`, 200})
	c.ask(c.server, call{"dequeueJob", "", `{"type":"h","owner":"o","lease":"300s"}`, 200})
	c.ask(c.server, call{"queueJob", "", `{"name":"held","type":"h"}`, 409})
	c.eventually("the node that was asked to resign is a candidate again", func() bool {
		infos, err := election.List(c.Context(), c.store.Broker(), "/test")
		return err == nil && slices.ContainsFunc(infos, func(e election.ElectionInfo) bool { return e.Name == "e1" })
	})
	c.broker.refuses.Store(true) // as if the leader had changed meanwhile
	c.ask(c.server, call{"resign", "e1", `{}`, 409})
	c.broker.refuses.Store(false)
	c.ask(c.server, call{"clearTree", "", `{"dry_run":true}`, 200})
	c.ask(c.server, call{"clearTree", "", `{"dry_run":false}`, 200})
	c.ask(c.server, call{"pruneTasks", "", `{"older_than":"1ns","selection":{"statuses":["killed"]}}`, 200})
}

// other returns another server on the same broker.
func (c *contract) other(change func(*Config)) *Server {
	c.Helper()
	config := c.config
	change(&config)
	s, err := New(config)
	must(c, err)
	return s
}

// refusals checks the errors that every operation has, whatever its input.
func (c *contract) refusals() {
	c.Helper()
	closed := c.other(func(config *Config) { config.Tokens = tokensOf(c.T, map[string]Role{"v": RoleView}) })
	once := c.other(func(config *Config) { config.Limits.Rate, config.Limits.RateBurst = 1e-9, 1 })
	small := c.other(func(config *Config) { config.Limits.BodyBytesMax = 4 })
	for i, id := range c.sorted() {
		op := c.operations[id]
		unknown := c.example(id, 422)
		unknown.target += map[bool]string{true: "&", false: "?"}[strings.Contains(unknown.target, "?")] + "bogus=1"
		c.ask(c.server, unknown)
		c.ask(c.server, c.example(id, 421), func(r *http.Request) { r.Host = "evil.example" })
		if !op.public {
			c.ask(closed, c.example(id, 401))
		}
		from := func(r *http.Request) { r.RemoteAddr = fmt.Sprintf("127.0.0.%d:1", i+1) }
		if !op.public {
			c.ask(once, unknown, from)
			c.ask(once, c.example(id, 429), from)
		}
		c.ask(c.server, c.example(id, 403), header("Sec-Fetch-Site", "cross-site"))
		if op.body {
			bad := c.example(id, 400)
			bad.body = `{"a":`
			c.ask(c.server, bad)
			large := c.example(id, 413)
			large.body = `{"much":"too long"}`
			c.ask(small, large)
			c.ask(c.server, c.example(id, 415), header("Content-Type", "text/plain"))
		}
	}
}

func (c *contract) sorted() []string { return slices.Sorted(maps.Keys(c.operations)) }

// outages checks every operation that needs the broker while it fails or hangs.
func (c *contract) outages() {
	c.Helper()
	quick := c.other(func(config *Config) {
		config.Limits.RequestTimeout, config.Limits.WaitMax = 5*time.Millisecond, 5*time.Millisecond
	})
	for _, id := range c.sorted() {
		op := c.operations[id]
		if op.responses["503"] != nil {
			away := broker.ErrUnavailable
			c.broker.failure.Store(&away)
			s := c.other(func(*Config) {}) // which has not asked whether the broker answers
			w := httptest.NewRecorder()
			s.ServeHTTP(w, c.request(c.example(id, 503)))
			c.saw(id, w.Code, w.Result().Header, w.Body.Bytes())
			if w.Code != 503 || w.Header().Get("Retry-After") == "" {
				c.Errorf("%s: %d %q: %s", id, w.Code, w.Header().Get("Retry-After"), w.Body)
			}
			c.broker.failure.Store(nil)
		}
		if op.responses["504"] != nil {
			c.broker.hangs.Store(true)
			c.ask(quick, c.example(id, 504))
			c.broker.hangs.Store(false)
		}
	}
}

// slowBodies sends only the beginning of a body.
func (c *contract) slowBodies() {
	c.Helper()
	slow := &bench{T: c.T, store: c.store, server: c.other(func(config *Config) { config.Limits.BodyTimeout = 20 * time.Millisecond })}
	address := slow.listen()
	for _, id := range c.sorted() {
		op := c.operations[id]
		if !op.body {
			continue
		}
		k := c.example(id, 408)
		status, header, body := raw(c.T, address, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
			op.method, c.request(k).URL.RequestURI()))
		if status != 408 {
			c.Errorf("%s: a body that does not come: %d %s", id, status, body)
		}
		c.saw(id, status, header, body)
	}
}

// dial returns a connection that has 20 s.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { conn.Close() })
	must(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	return conn
}

// raw sends some bytes and reads one answer.
func raw(t *testing.T, address, text string) (int, http.Header, []byte) {
	t.Helper()
	return rawOn(t, dial(t, address), text)
}

// rawOn is raw on a connection, which it closes.
func rawOn(t *testing.T, conn net.Conn, text string) (int, http.Header, []byte) {
	t.Helper()
	defer conn.Close()
	_, err := io.WriteString(conn, text)
	must(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, response.Header, body
}

// streams asks for the events.
func (c *contract) streams() {
	c.Helper()
	c.run()
	ctx, cancel := context.WithCancel(c.Context())
	cancel() // so that the stream ends at once
	c.ask(c.server, call{"events", "?kind=task", "", 200}, func(r *http.Request) { *r = *r.WithContext(ctx) })
}

func TestContract_UnknownPathsMethodsAndFailuresAreProblems(t *testing.T) {
	b := newBench(t, nil)
	b.want(404, "no_endpoint", request("GET", "/", ""))
	b.want(404, "no_endpoint", request("GET", "/v1", ""))
	w := b.want(405, "method", request("PUT", "/v1/tasks", ""))
	if got := w.Header().Get("Allow"); got != "GET, POST" {
		t.Errorf("Allow is %q", got)
	}
	b.want(405, "method", request("OPTIONS", "/v1/tasks/x", ""))
	b.want(405, "method", request("GET", "/v1/commands", ""))
	b.broker.panics.Store(true)
	b.want(500, "internal", request("GET", "/v1/tasks", ""))
	b.broker.panics.Store(false)
	// An adapter that has waited for the broker long enough, while the request has time.
	slow := fmt.Errorf("%w: no answer: %w", broker.ErrUnavailable, context.DeadlineExceeded)
	b.broker.failure.Store(&slow)
	b.want(503, "broker_unavailable", request("GET", "/v1/tasks", ""))
	full := broker.ErrNoSpace
	b.broker.failure.Store(&full)
	b.want(503, "broker_full", request("POST", "/v1/tasks", `{"id":"a"}`))
}

func TestProblem_BadInputNamesTheFieldTheValueAndTheLimit(t *testing.T) {
	b := newBench(t, func(c *Config) {
		c.Check = func(s windlass.Submission) error {
			if s.Spec.Type == "exec" {
				return &windlass.BadInputError{Field: "props", Value: "none", Limit: "must have a command"}
			}
			return nil
		}
	})
	for _, x := range []struct {
		method, path, body  string
		field, value, limit string
	}{
		{"POST", "/v1/tasks", `{"id":"a","priority":5000}`, "priority", "5000", "must be from -1000 to 1000"},
		{"POST", "/v1/tasks", `{"id":"a","type":"exec"}`, "props", "none", "must have a command"},
		{"POST", "/v1/tasks", `{"id":"a/b"}`, "id", "a/b", "must not contain"},
		{"POST", "/v1/tasks", `{"type":"t"}`, "body", "", "expected required property id to be present"},
		{"POST", "/v1/tasks", `{"id":"a","bogus":1}`, "body.bogus", "", "is not known"},
		{"POST", "/v1/tasks", `{"id":7}`, "body.id", "7", "expected string"},
		{"POST", "/v1/submissions", `[{"id":"a"},{"id":"_b"}]`, "body[1].id", "_b", "must not begin"},
		{"POST", "/v1/submissions", `[{"id":"a"},{"id":"a"}]`, "body[1].id", "a", "is that of body[0] already"},
		{"POST", "/v1/tree/jobs", `{"name":"a","type":"exec"}`, "props", "none", "must have a command"},
		{"POST", "/v1/tree/jobs", `{"name":"a","type":"t","parent":" "}`, "parent", " ", "joined by an underscore"},
		{"POST", "/v1/tree/jobs", `{"name":"a","type":"t","under":{"name":"("}}`, "under.name", "(", "must be a regular expression"},
		{"POST", "/v1/tree/batches", `[{"name":"a","type":"t","under":{"type":"("}}]`, "body[0].under.type", "(", "must be a regular expression"},
		{"POST", "/v1/tree/jobs", `{"name":"a","type":"t","parent":"x_y","name_template":"{{printf \"%99d\" 1}}"}`, "name_template", "", "no other braces"},
		{"GET", "/v1/tasks?status=idle", "", "status", "idle", "must be one of"},
		{"GET", "/v1/tasks?limit=10001", "", "limit", "10001", "must be at most 10000"},
		{"GET", "/v1/tasks/_a", "", "id", "_a", "must not begin"},
		{"GET", "/v1/tasks/a/wait?status=running&timeout=2m", "", "timeout", "2m", "must be a duration from 0s to 1m0s"},
		{"GET", "/v1/plan?join=n:colour=red", "", "join", "n:colour=red", "must be one of weight, capacity"},
		{"GET", "/v1/events?kind=tasks", "", "kind", "tasks", "must be one of task, node, election"},
		{"GET", "/v1/tree/jobs?name_matches=(", "", "name_matches", "(", "must be a regular expression"},
		{"POST", "/v1/tree/jobs", `{"name":"a","type":"t_u"}`, "type", "t_u", "must not contain"},
		{"GET", "/v1/tree?path=x", "", "path", "x", ""},
		{"GET", "/v1/tasks/a", `{"unblock":true}`, "body", "", "must be empty"},
		{"DELETE", "/v1/tasks/a", `{"unblock":true}`, "body", "", "must be empty"},
		{"POST", "/v1/commands", `{"message":"kill"}`, "ids", "", "ids or a selection must be given"},
		{"POST", "/v1/commands", `{"message":"kill","ids":["a"],"selection":{"types":["t"]}}`, "ids", "1", "exclude each other"},
		{"POST", "/v1/commands", `{"message":"kill","selection":{"statuses":["completed"]}}`, "selection.statuses", "completed", "must be one of"},
		{"POST", "/v1/commands", `{"message":"jump","ids":["a"]}`, "body.message", "jump", "expected value to be one of"},
		{"POST", "/v1/tasks/a/commands", `{"message":"sleep"}`, "until", "", "needs until or for"},
		{"POST", "/v1/tasks/a/commands", `{"message":"sleep","for":"-1s"}`, "for", "-1s", "must be a positive duration"},
		{"POST", "/v1/tasks/a/commands", `{"message":"sleep","until":"2001-01-01T00:00:00Z"}`, "until", "2001", "in the past"},
		{"POST", "/v1/tasks/a/commands", `{"message":"run","for":"1s"}`, "until", "run", "go with sleep alone"},
		{"POST", "/v1/nodes/n/commands", `{"command":"drain","per_second":1,"within":"1s"}`, "within", "1s", "exclude each other"},
		{"POST", "/v1/nodes/n/commands", `{"command":"freeze","within":"1s"}`, "within", "1s", "drain alone"},
		{"POST", "/v1/nodes/n/commands", `{"command":"freeze","per_second":7}`, "per_second", "7", "drain alone"},
		{"GET", "/v1/plan?join=n7:weight=1e9", "", "join", "n7:weight=1e9", `weight: "1e9" must be a whole number`},
		{"GET", "/v1/plan?join=n7:frozen=2", "", "join", "n7:frozen=2", `frozen: "2" must be true or false`},
		{"GET", "/v1/tasks?since=yesterday", "", "query.since", "yesterday", "must be a time such as 2026-01-02T15:04:05Z"},
		{"GET", "/v1/tasks?limit=5&limit=7", "", "limit", "7", "must be given once"},
		{"POST", "/v1/commands", `{"message":"kill","selection":{"tags":{"":"x"}}}`, "selection.tags", "=x", "must be like key=value"},
		{"POST", "/v1/commands", `{"message":"kill","selection":{"tags":{"` + strings.Repeat("k", 64) + `":""}}}`, "selection.tags", "kkk", "a key has at most 63 bytes"},
		{"GET", "/v1/tasks?tag=a&tag=b&tag=c&tag=d&tag=e&tag=f&tag=g&tag=h&tag=i&tag=j&tag=k&tag=l&tag=m&tag=n&tag=o&tag=p&tag=q", "", "tag", "17 tags", "must be at most 16"},
		{"POST", "/v1/nodes/n/commands", `{"command":"uncordon","reason":"x"}`, "reason", "x", "cordon alone"},
		{"POST", "/v1/nodes/n/commands", `{"command":"stop-task"}`, "task", "", "needs it"},
		{"POST", "/v1/prune", `{}`, "retention", "", "an age or a count must be given"},
		{"POST", "/v1/prune", `{"older_than":"soon"}`, "older_than", "soon", "must be a positive duration"},
		{"POST", "/v1/tree/dequeue", `{"type":"t","owner":"o","lease":"1s"}`, "lease", "1s", "must be"},
	} {
		w := b.want(422, "invalid", request(x.method, x.path, x.body))
		if p := read[Problem](b, w); p.Field != x.field || !strings.Contains(p.Value, x.value) || !strings.Contains(p.Limit, x.limit) {
			t.Errorf("%s %s %s: %q %q %q", x.method, x.path, x.body, p.Field, p.Value, p.Limit)
		}
	}
	unknown := func(r *http.Request) { r.ContentLength = -1 } // as HTTP/2 may have it
	b.want(422, "invalid", request("DELETE", "/v1/tasks/a", `{"unblock":true}`, unknown))
	b.want(404, "not_found", request("DELETE", "/v1/tasks/a", "", unknown))
	for _, query := range []string{"status=%zz", "status=running;type=t", "status=%", "stauts=running", "status=running,paused"} {
		b.want(422, "invalid", request("GET", "/v1/tasks", "", func(r *http.Request) { r.URL.RawQuery = query }))
	}
	if w := b.want(400, "malformed", request("POST", "/v1/tasks", "{\"id\":\"\xff\"}")); !strings.Contains(w.Body.String(), "UTF-8") {
		t.Error(w.Body)
	}
	if w := b.want(400, "malformed", request("POST", "/v1/tasks", `{"id":"a","props":{"password":"secret"}`)); strings.Contains(w.Body.String(), "secret") {
		t.Errorf("the whole body comes back: %s", w.Body)
	}
	if w := b.want(400, "malformed", request("POST", "/v1/tasks", `{"id":"a"} {"id":"b"}`)); !strings.Contains(w.Body.String(), "after top-level value") {
		t.Error(w.Body)
	}
	if tasks, err := b.client.Tasks(t.Context(), windlass.Filter{}); err != nil || len(tasks) > 0 {
		t.Errorf("something was submitted: %v, %v", tasks, err)
	}
}

func TestTasks_PagesFollowEachOtherByTheLinkHeader(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Prefix = "/fleet" })
	for i := range 7 {
		b.submit(windlass.Submission{ID: fmt.Sprintf("a|%d", i), Spec: windlass.Spec{Type: "t&u"}}, windlass.Submission{ID: fmt.Sprintf("b%d", i)})
	}
	var got []string
	next := "/fleet/v1/tasks?type=t%26u&limit=3"
	for pages := 0; next != ""; pages++ {
		w := b.want(200, "", request("GET", next, ""))
		for _, task := range read[[]windlass.TaskInfo](b, w) {
			got = append(got, task.ID)
		}
		link := w.Header().Get("Link")
		next = ""
		if link != "" {
			next = strings.TrimSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
		}
		if pages > 3 {
			t.Fatal("it has no end")
		}
	}
	if want := []string{"a|0", "a|1", "a|2", "a|3", "a|4", "a|5", "a|6"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
