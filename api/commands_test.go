package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/commands"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

func TestCommands_ThatAreNotCarriedOutDoNotHideThoseThatAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		// No node runs the tasks of the type none, and there are more of them than can be
		// waited for at once before the one that runs.
		var ids string
		for i := range 2 * commands.AtOnceMax {
			b.submit(windlass.Submission{ID: fmt.Sprintf("a%02d", i), Spec: windlass.Spec{Type: "none"}})
			ids += fmt.Sprintf("%q,", fmt.Sprintf("a%02d", i))
		}
		b.submit(windlass.Submission{ID: "b", Spec: windlass.Spec{Type: "run"}})
		b.withNode()
		began := time.Now()
		w := b.want(200, "", request("POST", "/v1/commands", `{"message":"release","ids":[`+ids+`"b","nobody"],"wait":"20s"}`))
		if took := time.Since(began); took < 20*time.Second || took > 25*time.Second {
			t.Errorf("it took %v", took)
		}
		results := map[string]int{}
		for _, o := range read[[]view.CommandResult](b, w) {
			if o.Message != statemachine.Release {
				t.Errorf("%+v", o)
			}
			results[o.Result]++
			if o.ID == "b" && o.Result != view.ResultDone || o.ID == "nobody" && o.Result != view.ResultFailed {
				t.Errorf("%+v", o)
			}
		}
		if results[view.ResultDone] == 0 || results[view.ResultFailed] != 1 {
			t.Errorf("%v", results)
		}
	})
}

func TestCommands_GoToTheSelectedLiveTasks(t *testing.T) {
	b := newBench(t, func(c *Config) { c.Limits.ListMax = 3 })
	for _, id := range []string{"a1", "a2", "b1"} {
		b.submit(windlass.Submission{ID: id, Spec: windlass.Spec{Type: "t"}})
	}
	want := func(body string, ids ...string) {
		t.Helper()
		w := b.want(200, "", request("POST", "/v1/commands/preview", body))
		if p := read[view.Preview](b, w); fmt.Sprint(p.IDs) != fmt.Sprint(ids) || p.Tasks != len(ids) {
			t.Errorf("%s: %+v", body, p)
		}
	}
	want(`{"selection":{"types":["t"]}}`, "a1", "a2", "b1")
	want(`{"selection":{"id_prefix":"a"}}`, "a1", "a2")
	want(`{"ids":["b1","a1","b1"]}`, "a1", "b1")
	want(`{"selection":{"types":["u"]}}`)
	b.want(200, "", request("POST", "/v1/commands", `{"message":"pause","selection":{"id_prefix":"a"}}`))
	b.want(200, "", request("POST", "/v1/prune", `{"keep":1,"selection":{"statuses":["completed"]}}`))
	b.submit(windlass.Submission{ID: "c", Spec: windlass.Spec{Type: "t"}})
	b.want(422, "invalid", request("POST", "/v1/commands", `{"message":"kill","selection":{"types":["t"]}}`))
}

func TestCommands_O04_ARetryTakesAPatchAndKeepsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.submit(windlass.Submission{ID: "a", Props: []byte(`{"customer":7,"dry":true}`), Spec: windlass.Spec{Type: "none", Priority: 3, Timeout: windlass.Duration(time.Hour)}})
		kill := func() { b.want(200, "", request("POST", "/v1/tasks/a/commands", `{"message":"kill"}`)) }
		kill()
		w := b.want(409, "finished", request("PATCH", "/v1/tasks/a", `{"priority":4}`))
		if !strings.Contains(w.Body.String(), "the command retry runs it again") {
			t.Error(w.Body)
		}
		b.want(422, "invalid", request("POST", "/v1/tasks/a/commands", `{"message":"retry","patch":{"priority":1001}}`))
		b.want(422, "invalid", request("POST", "/v1/tasks/a/commands", `{"message":"retry","patch":{"colour":1}}`))
		b.want(422, "invalid", request("POST", "/v1/tasks/a/commands", `{"message":"run","patch":{"priority":1}}`))
		w = b.want(200, "", request("POST", "/v1/tasks/a/commands", `{"message":"retry","patch":{"priority":4,"props":{"customer":8}}}`))
		if r := read[view.CommandResult](b, w); r.Result != view.ResultDone || fmt.Sprint(r.Changes) != "[priority: 3 → 4 props.customer: 7 → 8]" {
			t.Errorf("%+v", r)
		}
		kill()
		w = b.want(200, "", request("POST", "/v1/commands", `{"message":"continue","ids":["a"],"patch":{"priority":null}}`))
		if r := read[[]view.CommandResult](b, w); len(r) != 1 || fmt.Sprint(r[0].Changes) != "[priority: 4 → null]" {
			t.Errorf("%+v", r)
		}
		w = b.want(200, "", request("GET", "/v1/tasks/a", ""))
		if d := read[view.Task](b, w); d.Status != windlass.StatusPending || string(d.Props) != `{"customer":8,"dry":true}` || d.Spec.Timeout != windlass.Duration(time.Hour) || d.Spec.Priority != 0 {
			t.Errorf("it is %+v with %s", d.Spec, d.Props)
		}
	})
}

// A patch goes to each of many tasks, and the answer says of each what it has changed.
func TestCommands_APatchOfManyTasksIsBounded(t *testing.T) {
	b := newBench(t, nil)
	var ids []string
	for i := range 40 {
		ids = append(ids, fmt.Sprintf("%q", fmt.Sprint("t", i)))
		b.submit(windlass.Submission{ID: fmt.Sprint("t", i), Spec: windlass.Spec{Type: "none"}})
	}
	all := strings.Join(ids, ",")
	b.want(200, "", request("POST", "/v1/commands", `{"message":"kill","ids":[`+all+`]}`))
	retry := func(n int, id string) *http.Request {
		return request("POST", "/v1/commands", `{"message":"retry","ids":[`+id+`],"patch":{"props":{"text":"`+strings.Repeat("x", n)+`"}}}`)
	}
	w := b.want(422, "invalid", retry(250<<10, all))
	if p := read[Problem](b, w); p.Field != "patch" || !strings.Contains(p.Limit, "8388608 bytes for all tasks together") {
		t.Errorf("%+v", p)
	}
	results := read[[]view.CommandResult](b, b.want(200, "", retry(100<<10, all)))
	whole := 0
	for _, r := range results {
		if len(r.Changes) != 1 || r.Changes[0].Field != "props" {
			t.Fatalf("%+v", r)
		}
		if string(r.Changes[0].To) != "null" {
			whole++
		}
	}
	if whole != 11 {
		t.Errorf("%d of %d have the whole value", whole, len(results))
	}
}

func TestCommands_M21_ADeletionOfWhatOthersNeedIsAConflict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		for _, ids := range [][]string{{"a"}, {"b", "a"}, {"c", "b"}} {
			b.submit(windlass.Submission{ID: ids[0], Spec: windlass.Spec{Type: "none", Needs: ids[1:], OnFailure: windlass.FailureRuns}})
		}
		w := b.want(409, "needed", request("DELETE", "/v1/tasks/a", ""))
		if !strings.Contains(w.Body.String(), "1 live task(s) wait for it and may then run: b; unblock") {
			t.Error(w.Body)
		}
		b.want(409, "needed", request("POST", "/v1/tasks/a/commands", `{"message":"delete"}`))
		b.want(422, "invalid", request("POST", "/v1/tasks/a/commands", `{"message":"kill","unblock":true}`))
		b.want(422, "invalid", request("POST", "/v1/tasks/a/commands", `{"message":"delete","dependents":true}`))
		w = b.want(200, "", request("POST", "/v1/commands", `{"message":"kill","ids":["b"],"dependents":true}`))
		if all := read[[]view.CommandResult](b, w); len(all) != 2 || all[0].ID != "b" || all[1].ID != "c" || all[1].Status != windlass.StatusKilled {
			t.Errorf("%+v", all)
		}
		b.submit(windlass.Submission{ID: "d", Spec: windlass.Spec{Type: "none", Needs: []string{"a"}}})
		b.want(204, "", request("DELETE", "/v1/tasks/a?unblock=true", ""))
	})
}
