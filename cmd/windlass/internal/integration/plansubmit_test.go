package integration_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/statemachine"
)

// TestPlanSubmit_SaysWhatSubmittingDoes compares a plan with what then happens.
func TestPlanSubmit_SaysWhatSubmittingDoes(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.node("a")
		f.node("b", func(c *windlass.Config) { c.Labels = map[string]string{"disk": "gold"} })
		f.node("c", holding(5))
		f.submit("before", 6, windlass.Spec{})
		f.submit("ended", 2, windlass.Spec{})
		f.allRun(time.Minute, 8)
		for _, id := range []string{"ended-0000", "ended-0001"} {
			f.sendTask(id, statemachine.Kill)
			f.WaitFor(time.Minute, id, windlass.StatusKilled)
		}
		f.pauseType("held")
		var all []windlass.Submission
		var runs, waits []string
		add := func(n int, name string, spec windlass.Spec, into *[]string) {
			for i := range n {
				id := fmt.Sprintf("%s-%d", name, i)
				all, *into = append(all, windlass.Submission{ID: id, Spec: spec}), append(*into, id)
			}
		}
		add(40, "plain", windlass.Spec{}, &runs)
		add(4, "gold", windlass.Spec{Require: map[string]string{"disk": "gold"}}, &runs)
		add(3, "nowhere", windlass.Spec{Require: map[string]string{"disk": "tin"}}, &waits)
		add(1, "pinned", windlass.Spec{Node: "elsewhere"}, &waits)
		add(1, "blocked", windlass.Spec{Needs: []string{"before-0002"}}, &waits)
		add(1, "later", windlass.Spec{NotBefore: time.Now().Add(time.Hour)}, &waits)
		add(2, "held", windlass.Spec{Type: "held"}, &waits)
		all = append(all,
			windlass.Submission{ID: "before-0000"},
			windlass.Submission{ID: "before-0001", Spec: windlass.Spec{Priority: 1}},
			windlass.Submission{ID: "ended-0000"},
			windlass.Submission{ID: "ended-0001", Rerun: true},
			windlass.Submission{ID: "round", Spec: windlass.Spec{Needs: []string{"trip"}}},
			windlass.Submission{ID: "trip", Spec: windlass.Spec{Needs: []string{"round"}}},
			windlass.Submission{ID: "absurd", Spec: windlass.Spec{Priority: windlass.PriorityMax + 1}},
		)
		runs = append(runs, "ended-0001")

		stored := f.collect("/test/")
		plan, refused, err := inspect.New(f.client).PlanSubmit(t.Context(), all)
		f.must(err)
		if !reflect.DeepEqual(stored, f.collect("/test/")) {
			t.Error("a plan changes what is stored")
		}
		effects, errs := f.client.Enqueue(t.Context(), all)
		did := map[windlass.Effect]int{}
		for i := range all {
			if fmt.Sprint(refused[i]) != fmt.Sprint(errs[i]) {
				t.Errorf("%s: planned %v, is %v", all[i].ID, refused[i], errs[i])
			}
			if errs[i] == nil {
				did[effects[i]]++
			}
		}
		if !maps.Equal(plan.Effects, did) || did[windlass.EffectRerun] != 1 {
			t.Errorf("planned %v, done %v", plan.Effects, did)
		}
		f.allRun(time.Minute, 7-1+len(runs))
		shares := map[string]int{}
		for _, share := range plan.Nodes {
			shares[share.Node] = share.Tasks
		}
		// Each node plans by itself, so one task or another is claimed by the next best.
		got := f.load(runs...)
		for name, n := range shares {
			if d := got[name] - n; max(d, -d) > 3 || len(got) != 3 || len(shares) != 3 {
				t.Errorf("planned %v, run %v", shares, got)
			}
		}
		var why []string
		for _, w := range plan.Waiting {
			why = append(why, fmt.Sprintf("%d %s %s", w.Tasks, w.First, w.Why[:9]))
		}
		if want := []string{"3 nowhere-0 no node c", "2 held-0 its type ", "1 blocked-0 it waits ", "1 later-0 it is not", "1 pinned-0 no node c"}; !slices.Equal(why, want) || plan.Waits != len(waits) {
			t.Errorf("%d wait: %q, want %q", plan.Waits, why, want)
		}
		for _, id := range waits {
			if s := f.status(id); s == windlass.StatusRunning {
				t.Errorf("%s runs", id)
			}
		}
		for _, v := range plan.Waiting[0].Nodes {
			if v.Takes || !strings.Contains(v.Why, "tin") {
				t.Errorf("%+v", v)
			}
		}
	})
}

// TestPlanSubmit_ChangesOfLiveTasks: they are counted, and stay where they are.
func TestPlanSubmit_ChangesOfLiveTasks(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.submit("waits", 1, windlass.Spec{Require: map[string]string{"disk": "gold"}})
		f.submit("runs", 2, windlass.Spec{})
		f.node("n")
		f.allRun(time.Minute, 2)
		plan, errs, err := inspect.New(f.client).PlanSubmit(t.Context(), []windlass.Submission{
			{ID: "waits-0000", Update: true},
			{ID: "runs-0000", Update: true, Spec: windlass.Spec{Priority: 1}},
			{ID: "runs-0001", Update: true, Requeue: true, Spec: windlass.Spec{Priority: 1}},
		})
		want := inspect.SubmitPlan{
			Effects: map[windlass.Effect]int{windlass.EffectUpdated: 2, windlass.EffectRequeued: 1},
			Nodes:   []inspect.PlannedShare{}, Waiting: []inspect.PlannedWait{},
		}
		if err != nil || !slices.Equal(errs, make([]error, 3)) || !reflect.DeepEqual(plan, want) {
			t.Errorf("%+v (%v, %v), want %+v", plan, errs, err, want)
		}
	})
}

// TestPlanSubmit_NamesANodeThatTheOthersFill: whoever asks for too much learns that.
func TestPlanSubmit_NamesANodeThatTheOthersFill(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.node("c", holding(3))
		f.Advance(time.Second)
		var all []windlass.Submission
		for i := range 5 {
			all = append(all, windlass.Submission{ID: fmt.Sprint("t-", i)})
		}
		plan, _, err := inspect.New(f.client).PlanSubmit(t.Context(), all)
		f.must(err)
		full := []inspect.Verdict{{Node: "c", Why: "it is full: it has a capacity of 3 and holds 3, and the task weighs 1"}}
		if plan.Waits != 2 || len(plan.Waiting) != 1 || !slices.Equal(plan.Waiting[0].Nodes, full) || !slices.Equal(plan.Nodes, []inspect.PlannedShare{{Node: "c", Tasks: 3}}) {
			t.Errorf("%+v", plan)
		}
	})
}
