package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/tree"
)

// Whoever reads the log later has to know on what a change was: an operation that is new has no row here.
func TestAudit_EveryChangeSaysOnWhat(t *testing.T) {
	b := newBench(t, nil)
	jobs, err := tree.New(b.store.Broker(), "/test")
	must(t, err)
	for _, id := range []string{"t1", "t2", "t3", "t4", "t5", "t6", "gone"} {
		b.submit(windlass.Submission{ID: id, Spec: windlass.Spec{Type: "import"}, Props: json.RawMessage(`{"n":1}`)})
	}
	_, err = jobs.Queue(t.Context(), tree.Request{Name: "job", Type: "step"})
	must(t, err)
	seen := map[string]bool{}
	for _, c := range []struct{ id, method, path, body, want string }{
		{"submitTask", "POST", "/v1/tasks", `{"id":"new","type":"import"}`, "task=new type=import"},
		{"submitTasks", "POST", "/v1/submissions", `[{"id":"b1"},{"id":"b2"}]`, "tasks=2 first=b1 b2 outcome=done"},
		{"submitTasks", "POST", "/v1/submissions", `[{"id":"b3"},{"id":"?/"}]`, "tasks=2 first=b3 ?/ outcome=failed code=invalid"},
		{"submitTasks", "POST", "/v1/submissions", `[{"id":`, "outcome=failed code=malformed"},
		{"submitTasks", "POST", "/v1/submissions", `[{"id":7}]`, "outcome=failed code=invalid"},
		{"submitTasks", "POST", "/v1/submissions", strings.Repeat(" ", 5<<20), "outcome=failed code=too_large"},
		{"updateTask", "PATCH", "/v1/tasks/t1", `{"priority":3,"props":{"n":2,"m":3}}`, "task=t1 fields=priority props.m props.n"},
		{"updateTask", "PATCH", "/v1/tasks/none", `{"props":null}`, "task=none fields=props code=not_found"},
		{"deleteTask", "DELETE", "/v1/tasks/gone?unblock=true", "", "task=gone unblock=true"},
		{"commandTask", "POST", "/v1/tasks/t1/commands", `{"message":"pause"}`, "task=t1 message=pause"},
		{"commandTask", "POST", "/v1/tasks/t5/commands", `{"message":"sleep","for":"2h"}`, "task=t5 message=sleep for=2h"},
		{"commandTasks", "POST", "/v1/commands", `{"message":"sleep","until":"2999-01-02T03:04:05Z","ids":["t6"]}`, "message=sleep until=2999-01-02T03:04:05Z first=t6"},
		{"commandTasks", "POST", "/v1/commands", `{"message":"pause","selection":{"types":["import"]}}`, `message=pause selection={"types":["import"]} tasks=7 first=new t1 t2 t3 t4`},
		{"commandTasks", "POST", "/v1/commands", `{"message":"kill","ids":["t1","t2"],"dependents":true}`, "message=kill dependents=true tasks=2 first=t1 t2"},
		{"commandTasks", "POST", "/v1/commands", `{"message":"kill","ids":["t1"],"selection":{"id_prefix":"x"}}`, `message=kill selection={"id_prefix":"x"} tasks=1 first=t1`},
		{"commandTasks", "POST", "/v1/commands", `{"message":"pause","ids":["none"]}`, "tasks=1 first=none failed=1 outcome=failed"},
		{"commandTasks", "POST", "/v1/commands", `{"message":"pause","ids":["none","t3"]}`, "tasks=2 first=none sent=1 failed=1 outcome=partly"},
		{"commandTasks", "POST", "/v1/commands", `{"message":"retry","ids":["t1"],"patch":{"props":{"secret":7}}}`, "message=retry fields=props.secret first=t1"},
		{"pruneTasks", "POST", "/v1/prune", `{"keep":1,"selection":{"error":"refused"}}`, `dry_run=false keep=1 unblock=false selection={"error":"refused"} tasks=0`},
		{"commandNode", "POST", "/v1/nodes/n1/commands", `{"command":"stop-task","task":"t1"}`, "node=n1 command=stop-task task=t1"},
		{"commandNode", "POST", "/v1/nodes/n1/commands", `{"command":"drain","per_second":3}`, "node=n1 command=drain per_second=3"},
		{"commandNode", "POST", "/v1/nodes/n1/commands", `{"command":"drain","within":"10m"}`, "command=drain within=10m"},
		{"commandType", "POST", "/v1/types/commands", `{"type":"import","command":"pause"}`, "type=import command=pause"},
		{"initTree", "POST", "/v1/tree/init", "", ""},
		{"queueJob", "POST", "/v1/tree/jobs", `{"name":"j","type":"step","under":{"name":"job","type":"step"}}`, "name=j type=step under_name=job under_type=step queued=1"},
		{"queueJobs", "POST", "/v1/tree/batches", `[{"name":"k","type":"step"},{"name":"l","type":"step"}]`, "jobs=2 first=k_step l_step queued=2 outcome=done"},
		{"queueJobs", "POST", "/v1/tree/batches", `[{"name":"m","type":"step","parent":"job_step"},{"name":"n","type":"step","under":{"name":"x.*"}}]`, "jobs=2 first=job_step/m_step {x.*_}/n_step"},
		{"dequeueJob", "POST", "/v1/tree/dequeue", `{"type":"step","owner":"o"}`, "type=step owner=o task=job_step"},
		{"completeJob", "POST", "/v1/tree/jobs/job/complete", `{"token":1}`, "task=job token=1"},
		{"failJob", "POST", "/v1/tree/jobs/job/fail", `{"token":1,"error":"no"}`, "task=job token=1"},
		{"releaseJob", "POST", "/v1/tree/jobs/job/release", `{"token":1}`, "task=job token=1"},
		{"clearTree", "POST", "/v1/tree/clear", `{"dry_run":true}`, "dry_run=true jobs=5 first=job_step"},
		{"resign", "POST", "/v1/elections/e1/resign", `{}`, "election=e1"},
	} {
		seen[c.id] = true
		b.do(request(c.method, c.path, c.body))
		records := b.log.records(b)
		if len(records) != 1 || records[0]["what"] != c.id || records[0]["who"] != "local" || records[0]["outcome"] == nil {
			t.Fatalf("%s %s: %v", c.method, c.path, records)
		}
		var attrs []string
		for _, name := range slices.Sorted(maps.Keys(records[0])) {
			attrs = append(attrs, fmt.Sprintf("%s=%v", name, records[0][name]))
		}
		for _, want := range strings.Fields(c.want) {
			if !strings.Contains(" "+strings.Join(attrs, " ")+" ", " "+want+" ") {
				t.Errorf("%s %s %s: no %s in %v", c.method, c.path, c.body, want, attrs)
			}
		}
	}
	b.broker.panics.Store(true)
	b.do(request("POST", "/v1/tasks", `{"id":"p"}`))
	if records := b.log.records(b); len(records) == 0 || records[len(records)-1]["code"] != codeInternal || records[len(records)-1]["outcome"] != "failed" {
		t.Errorf("of a panic it has %v", records)
	}
	b.broker.panics.Store(false)
	for _, e := range b.server.endpoints {
		if e.changes() && !seen[e.ID] {
			t.Errorf("%s changes something, and what it says of that is not known", e.ID)
		}
	}
}
