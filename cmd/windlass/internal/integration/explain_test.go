package integration_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/lease"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/placement"
)

func TestExplain_Z12_NamesTheCycle(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		// No client lets it happen; one that dies between its write and its second look can.
		for id, need := range map[string]string{"a": "b", "b": "a", "c": "a"} {
			c.put("/test/tasks/"+id, fmt.Sprintf(`{"type":"t","needs":[%q]}`, need))
		}
		if e := c.explain("a"); !slices.Equal(e.Cycle, []string{"a", "b", "a"}) || !strings.Contains(e.Why, "a → b → a") {
			t.Errorf("of one on the cycle: %+v", e)
		}
		if e := c.explain("c"); e.Cycle != nil || e.Why != "it waits for a" {
			t.Errorf("of one that waits for the cycle: %+v", e)
		}
	})
}

// Why a task is not claimed, as Explain says it.
const (
	runs       = "there is no node" // which is what keeps it
	isKilled   = "is to be killed"
	waits      = "waits for"
	isNotDue   = "is not due before"
	unreadable = "cannot be read"
	sleeps     = "it sleeps until"
	isPaused   = "it is paused"
	isHeld     = "it runs on node"
)

// in1970 is before the virtual time of every test, in2100 after it.
const in1970, in2100 = `"1970-01-01T00:00:00Z"`, `"2100-01-01T00:00:00Z"`

// withNeeds returns a spec that needs n tasks, none of which exists.
func withNeeds(n int) string {
	needs := make([]string, n)
	for i := range needs {
		needs[i] = fmt.Sprintf(`"gone-%d"`, i)
	}
	return `{"type":"x","needs":[` + strings.Join(needs, ",") + `]}`
}

// claimable lists what is stored, by key below tasks/ or as the state, and what follows for
// a task.
var claimable = []struct {
	name, id string
	stored   map[string]string
	want     string
}{
	{"plain", "t", map[string]string{"t": `{"type":"x"}`}, runs},
	{"by its properties alone", "t", map[string]string{"t/props": `{}`}, runs},
	{"with an empty spec", "t", map[string]string{"t": ``}, runs},
	{"held", "t", map[string]string{"t": `{"type":"x"}`, "t/owner": `{"node":"other"}`}, isHeld},
	{"held by nobody knows whom", "t", map[string]string{"t": `{"type":"x"}`, "t/owner": `?`}, isHeld},
	{"held and not due", "t", map[string]string{"t": `{"type":"x","not_before":` + in2100 + `}`, "t/owner": `{"node":"other"}`}, isHeld},
	{"due by now", "t", map[string]string{"t": `{"type":"x","not_before":` + in1970 + `}`}, runs},
	{"not due", "t", map[string]string{"t": `{"type":"x","not_before":` + in2100 + `}`}, isNotDue},
	{"needs what is gone", "t", map[string]string{"t": `{"type":"x","needs":["a"]}`}, runs},
	{"needs what is pending", "t", map[string]string{"t": `{"type":"x","needs":["a"]}`, "a": `{"type":"y"}`}, waits},
	{"needs what is held", "t", map[string]string{"t": `{"type":"x","needs":["a"]}`, "a": `{"type":"y"}`, "a/owner": `{"node":"other"}`}, waits},
	{"needs what there are properties of", "t", map[string]string{"t": `{"type":"x","needs":["a"]}`, "a/props": `{"no":"key"}`, "a/owner": `{"node":"other"}`}, runs},
	{"needs what is held and deleted", "t", map[string]string{"t": `{"type":"x","needs":["a"]}`, "a/owner": `{"node":"other"}`}, runs},
	{"needs what is pending, and not due", "t", map[string]string{"t": `{"type":"x","needs":["a"],"not_before":` + in2100 + `}`, "a": `{"type":"y"}`}, isNotDue},
	{"needs itself", "t", map[string]string{"t": `{"type":"x","needs":["t"]}`}, waits},
	{"needs what has failed", "t", map[string]string{"t": `{"type":"x","needs":["a"]}`, "a/failed": `{"state":"failed"}`}, waits},
	{"needs what has failed in an unknown way", "t", map[string]string{"t": `{"type":"x","needs":["a"]}`, "a/failed": `?`}, waits},
	{"needs what has failed and skips", "t", map[string]string{"t": `{"type":"x","needs":["a"]}`, "a/failed": `{"state":"failed","skip":true}`}, isKilled},
	{"needs what has failed and runs again", "t", map[string]string{"t": `{"type":"x","needs":["a"]}`, "a/failed": `{"state":"failed","skip":true}`, "a": `{"type":"y"}`}, waits},
	{"a failure skips it before it is due", "t", map[string]string{"t": `{"type":"x","needs":["a"],"not_before":` + in2100 + `}`, "a/failed": `{"state":"killed","skip":true}`}, isKilled},
	{"a failure skips it while it waits", "t", map[string]string{"t": `{"type":"x","needs":["a","b"]}`, "a": `{"type":"y"}`, "b/failed": `{"state":"failed","skip":true}`}, isKilled},
	{"one failure blocks it and one skips it", "t", map[string]string{"t": `{"type":"x","needs":["a","b"]}`, "a/failed": `{"state":"failed"}`, "b/failed": `{"state":"failed","skip":true}`}, isKilled},
	{"has failed before itself", "t", map[string]string{"t": `{"type":"x"}`, "t/failed": `{"state":"failed","skip":true}`}, runs},
	{"sleeps", "t", map[string]string{"t": `{"type":"x"}`, "state": `{"state":"sleeping","until":` + in2100 + `}`}, sleeps},
	{"is paused", "t", map[string]string{"t": `{"type":"x"}`, "state": `{"state":"paused"}`}, isPaused},
	{"a failure skips it while it sleeps", "t", map[string]string{"t": `{"type":"x","needs":["a"]}`, "a/failed": `{"state":"failed","skip":true}`, "state": `{"state":"sleeping","until":` + in2100 + `}`}, isKilled},
	{"below what is pending", "a|t", map[string]string{"a|t": `{"type":"x"}`, "a": `{"type":"y"}`}, waits},
	{"below what is done", "a|t", map[string]string{"a|t": `{"type":"x"}`}, runs},
	{"below a failure that skips", "a|b|t", map[string]string{"a|b|t": `{"type":"x"}`, "a/failed": `{"state":"failed","skip":true}`}, isKilled},
	{"a spec that is none", "t", map[string]string{"t": `{"type":`}, unreadable},
	{"as many needs as there can be", "t", map[string]string{"t": withNeeds(windlass.NeedsMax)}, runs},
	{"as many needs as by hand", "t", map[string]string{"t": withNeeds(windlass.NeedsMax + 1)}, runs},
	{"more levels than conditions", strings.Repeat("a|", 100) + "t", map[string]string{strings.Repeat("a|", 100) + "t/props": `{}`}, runs},
}

// Explain, a node and a script that dequeues agree about every task.
func TestExplain_SaysWhatNodesAndScriptsDo(t *testing.T) {
	for _, row := range claimable {
		stored := func(f *fleet) {
			for key, value := range row.stored {
				switch {
				case key == "state":
					f.put("/test/state/"+row.id, value)
				case strings.HasSuffix(key, "/owner"):
					f.putForAnHour("/test/tasks/"+key, value)
				default:
					f.put("/test/tasks/"+key, value)
				}
			}
		}
		t.Run(row.name, func(t *testing.T) {
			inFleet(t, func(t *testing.T, f *fleet) {
				stored(f)
				if e := f.explain(row.id); !strings.Contains(e.Why, row.want) {
					t.Errorf("it is explained by %q, want that it %s", e.Why, row.want)
				}
				taskType := "x"
				if row.stored[row.id] == "" {
					taskType = ""
				}
				d, err := lease.New(f.Client(), nil).Dequeue(t.Context(), taskType, "script", 0)
				if row.want == runs && (err != nil || d.ID != row.id) || row.want != runs && !errors.Is(err, windlass.ErrEmpty) {
					t.Errorf("a script gets %+v, %v", d, err)
				}
			})
			inFleet(t, func(t *testing.T, f *fleet) {
				stored(f)
				f.node("n")
				f.Advance(3 * time.Second)
				status := windlass.Status("")
				if detail, err := f.Client().Task(t.Context(), row.id); err == nil {
					status = detail.Status
				}
				ran, killed := len(f.Runs(row.id)) > 0, status == windlass.StatusKilled
				if ran != (row.want == runs) || killed != (row.want == isKilled) {
					t.Errorf("a node runs it: %v; its status is %s", ran, status)
				}
			})
		})
	}
}

// Regression: Explain planned the oldest task first, and named a node for a task that no node
// had room for.
// A task that is changed is given back for its node, which may not take it as it is now.
func TestExplain_ATaskThatIsMovedNowhere(t *testing.T) {
	inCluster(t, func(t *testing.T, c *cluster) {
		c.join("a")
		c.Submit(windlass.Submission{ID: "t"})
		c.WaitFor(time.Minute, "t", windlass.StatusRunning)
		_, err := c.client.Update(t.Context(), "t", func(s *windlass.Submission) error {
			s.Spec.Require = map[string]string{"disk": "gold"}
			return nil
		})
		c.must(err)
		c.WaitFor(time.Minute, "t", windlass.StatusPending)
		if e := c.explain("t"); e.Why != "no node can take it; see each" || !strings.Contains(e.Nodes[0].Why, "disk=gold") {
			t.Errorf("%+v", e)
		}
		c.join("b", func(cfg *windlass.Config) { cfg.Labels = map[string]string{"disk": "gold"} })
		c.WaitFor(time.Minute, "t", windlass.StatusRunning)
	})
}

func TestExplain_PlansInTheOrderInWhichNodesDo(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		n := f.node("n", holding(1))
		f.Advance(time.Second)
		n.Use(`refuse on commit below "/test/tasks/"`) // so that it claims neither
		f.submit("older", 1, windlass.Spec{})
		f.submit("important", 1, windlass.Spec{Priority: 1})
		for id, takes := range map[string]bool{"important-0000": true, "older-0000": false} {
			if e := f.explain(id); strings.Contains(e.Why, "node n is to claim it") != takes {
				t.Errorf("of %s it says %q", id, e.Why)
			}
		}
	})
}

// Regression: Plan also placed tasks that are about to be killed.
func TestPlan_LeavesOutWhatIsToBeKilled(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		n := f.node("n")
		f.Advance(time.Second)
		n.Use(`refuse on commit below "/test/tasks/"`) // so that it kills nothing
		f.submit("open", 3, windlass.Spec{})
		f.submit("skipped", 2, windlass.Spec{Needs: []string{"a"}})
		f.put("/test/tasks/a/failed", `{"state":"failed","skip":true}`)
		report, err := inspect.New(f.Client()).Plan(t.Context(), func(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error) { return nodes, nil })
		if want := []inspect.PlannedMove{{To: "n", Tasks: 3}}; err != nil || !slices.Equal(report.Moves, want) || report.Waiting != 0 {
			t.Errorf("moves %v, %d wait (%v)", report.Moves, report.Waiting, err)
		}
	})
}

func TestPlan_M17_WhatOneNodeSaysOfItselfDoesNotKeepOthersFromPlanning(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		c.join("good")
		c.submit(4, windlass.Spec{})
		c.WaitUntil(5*time.Second, "they run", c.allRunning(4))
		c.put("/test/nodes/absurd/info", `{"capacity":99999999999999999,"weight":-5}`)
		join := func(n windlass.NodeInfo) inspect.Edit {
			return func(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error) { return append(nodes, n), nil }
		}
		report, err := inspect.New(c.client).Plan(t.Context(), join(windlass.NodeInfo{Name: "third"}))
		if err != nil || len(report.Nodes) != 3 || report.Waiting != 0 {
			t.Errorf("%+v, %v", report, err)
		}
		var input *windlass.BadInputError
		if _, err := inspect.New(c.client).Plan(t.Context(), join(windlass.NodeInfo{Name: "third", Capacity: math.MaxInt})); !errors.As(err, &input) || input.Field != "capacity" {
			t.Errorf("a capacity that no node may have: %v", err)
		}
	})
}

func TestExplain_M17_NamesTheNodeThatAShortLivedTaskGoesToByItsName(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		var classes placement.Classes
		class := classes.Of(placement.Class{Type: "job"})
		view := placement.View{Held: &placement.Tally{}, Open: map[*placement.Class]int{class: 20}, ShortLived: map[string]bool{"job": true}}
		for _, node := range []string{"a", "b"} { // registered, and no process
			view.Nodes = append(view.Nodes, placement.Node{Name: node, Types: []string{"job"}})
			f.put("/test/nodes/"+node+"/info", fmt.Sprintf(`{"name":%q,"types":["job"],"short_lived":["job","no\u0000type"]}`, node))
		}
		for _, id := range f.submit("job", 20, windlass.Spec{Type: "job"}) {
			e := f.explain(id)
			if want := "node " + placement.New(view).Take(id, class); !strings.HasPrefix(e.Why, want) {
				t.Errorf("of %s it says %q, want %s", id, e.Why, want)
			}
		}
	})
}

func TestPlan_M17_MovesTasksOfATypeThatANodeNamesAsShortLived(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.nodes(1)
		f.submit("lasts", 20, windlass.Spec{})
		f.allRun(time.Minute, 20)
		report, err := inspect.New(f.Client()).Plan(t.Context(), func(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error) {
			return append(nodes, windlass.NodeInfo{Name: "joins", Types: nodes[0].Types, ShortLived: []string{""}}), nil
		})
		if err != nil || report.Moved != 10 {
			t.Errorf("%+v, %v", report, err)
		}
	})
}

// What runs on nodes that get nothing stays there: of a plan, only the tasks of the node that leaves wait.
func TestPlan_OnlyWhatLosesItsNodeWaits(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.nodes(4)
		f.submit("t", 12, windlass.Spec{})
		f.allRun(time.Minute, 12)
		f.settle(12)
		for _, name := range []string{"n01", "n02"} {
			_, err := operate.New(f.client).Cordon(t.Context(), name, "")
			f.must(err)
		}
		f.must(operate.New(f.client).Send(t.Context(), "n03", operate.Command{Command: operate.Freeze}))
		f.Advance(time.Minute)
		report, err := inspect.New(f.client).Plan(t.Context(), func(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error) {
			return slices.DeleteFunc(nodes, func(n windlass.NodeInfo) bool { return n.Name == "n00" }), nil
		})
		f.must(err)
		if want := []inspect.PlannedMove{{From: "n00", Tasks: 3}}; report.Waiting != 3 || !slices.Equal(report.Moves, want) {
			t.Errorf("%d wait, and the moves are %+v", report.Waiting, report.Moves)
		}
	})
}

func TestDoubts_NameTheTypesThatNobodyRunsAndTheNeedsThatLeftNoTrace(t *testing.T) {
	inEach(t, func(t *testing.T, c *cluster) {
		doubts := func(tasks ...windlass.Submission) []string {
			t.Helper()
			got, err := inspect.New(c.client).Warnings(t.Context(), tasks)
			c.must(err)
			return got
		}
		typo := windlass.Submission{ID: "a", Spec: windlass.Spec{Type: "reprot"}}
		if got := doubts(typo); len(got) != 1 || !strings.Contains(got[0], "no node is there") {
			t.Errorf("without nodes: %q", got)
		}
		c.join("n", handlers(map[string]run{"report": untilStopped, "once": done}))
		c.join("m", pulling("job"))
		c.Submit(windlass.Submission{ID: "live", Spec: windlass.Spec{Type: "report"}}, windlass.Submission{ID: "ended", Spec: windlass.Spec{Type: "once"}})
		c.WaitFor(time.Minute, "ended", windlass.StatusCompleted)
		fine := []windlass.Submission{
			{ID: "a", Spec: windlass.Spec{Type: "report", Needs: []string{"live", "ended", "b"}}}, {ID: "b", Spec: windlass.Spec{Type: "job"}},
		}
		if got := doubts(fine...); len(got) != 0 {
			t.Errorf("of what is fine: %q", got)
		}
		got := doubts(typo, windlass.Submission{ID: "b"}, windlass.Submission{ID: "c", Spec: windlass.Spec{Type: "job", Needs: []string{"lvie"}}})
		want := []string{`runs the type ""; they run ["job" "once" "report"]`, `runs the type "reprot"`, `task "c" needs "lvie"`}
		if len(got) != len(want) {
			t.Fatalf("%q", got)
		}
		for i, w := range want {
			if !strings.Contains(got[i], w) {
				t.Errorf("%q does not say %s", got[i], w)
			}
		}
	})
}
