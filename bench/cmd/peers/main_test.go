package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/windlass-go/windlass/bench/internal/elections"
	"github.com/windlass-go/windlass/bench/internal/fleet"
	"github.com/windlass-go/windlass/bench/internal/growth"
	"github.com/windlass-go/windlass/bench/internal/jobs"
	"github.com/windlass-go/windlass/bench/internal/report"
)

// This test's binary is also what it starts.
func TestMain(m *testing.M) {
	if os.Args[0] == "peers" || os.Args[0] == fleet.Windlass {
		main()
	}
	goleak.VerifyTestMain(m)
}

// tinySizes are those of a run in which nothing but its course is of interest.
var tinySizes = sizes{
	jobs: jobs.Config{
		Workers: []int{2}, Jobs: 100, WarmUp: 10, Latencies: 1, Repetitions: 1, Timeout: time.Minute,
		Sides: []string{jobs.SideWindlass, jobs.SideBare, jobs.SideRiverTuned, jobs.SideAsynq}, // one of each system
	},
	elections: elections.Config{Candidates: []int{3}, HandOvers: 3, Repetitions: 1, Timeout: time.Minute},
	fleet:     fleet.Config{Members: []int{1}, Tasks: 60, IdleFor: 100 * time.Millisecond, Repetitions: 1, Timeout: time.Minute},
	growth:    growth.Config{Sizes: []int{50}, Takes: 5, Repetitions: 1, Timeout: time.Minute},
}

func TestCompare_MeasuresEverySystemThatIsThere(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts every store that there is")
	}
	names := []string{jobs.Workload, elections.Workload, fleet.Workload}
	r, err := compare(t.Context(), tinySizes, names, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range r.LeftOut {
		// Of a store that is not installed, and of nothing else.
		if !strings.Contains(what, ": install ") && !strings.Contains(what, "PostgreSQL does not run as root") {
			t.Errorf("left out: %s", what)
		}
	}
	for _, name := range names {
		w := r.Workload(name)
		if w == nil {
			t.Errorf("%s was not measured", name)
			continue
		}
		for _, side := range w.Sides {
			measured := 0
			for _, m := range w.Measures {
				if m.Side == side.Name {
					measured += len(m.Samples)
				}
			}
			if measured == 0 {
				t.Errorf("%s: nothing was measured of %s", name, side.Name)
			}
		}
	}
	if rate := r.Workload(jobs.Workload).Find(jobs.RateRow(2), jobs.SideWindlass); rate == nil || rate.Median <= 0 {
		t.Errorf("jobs of ours: %+v", rate)
	}
	recorded(t, r)
}

// recorded writes a report down and puts it into a document.
func recorded(t *testing.T, r *report.Report) {
	t.Helper()
	from, docs := t.TempDir(), t.TempDir()
	if err := write(r, from); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(docs, document)
	if err := os.WriteFile(path, []byte(report.BeginMark+"\n"+report.EndMark+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := start([]string{"peers", "record", "--from", from, "--docs", docs}, nil, &out, &errs); code != 0 {
		t.Fatalf("it ends with %d: %s", code, errs.String())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), jobs.SideWindlass) {
		t.Errorf("the document is %s", text)
	}
}

func TestStart_RefusesWhatMakesNoSense(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "run|record|profile"},
		{[]string{"dance"}, `command "dance"`},
		{[]string{"run", "everything"}, `workload "everything": must be one of jobs, elections, fleet, growth`},
		{[]string{"run", "--slow"}, "-slow"},
		{[]string{"profile"}, "one workload"},
		{[]string{"profile", "jobs", "fleet"}, "one workload"},
		{[]string{"record", "now"}, "no arguments"},
		{[]string{jobs.WorkerRole}, "started by another process"},
	} {
		var out, errs bytes.Buffer
		code := start(append([]string{"peers"}, c.args...), strings.NewReader(""), &out, &errs)
		if code == 0 || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%q ends with %d and says %q", c.args, code, errs.String())
		}
	}
}

// The document in the repository follows from the report beside it.
func TestDocument_IsThatOfTheRecordedReport(t *testing.T) {
	docs := filepath.Join("..", "..", "..", "docs")
	r, err := readReport(filepath.Join(docs, recordedFolder))
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(docs, document))
	if err != nil {
		t.Fatal(err)
	}
	after, err := r.Insert(string(before), headingLevel)
	if err != nil {
		t.Fatal(err)
	}
	if after != string(before) {
		t.Errorf("docs/%s is not what the recorded report says; run: make bench-record, or bring the report back", document)
	}
	for name, plot := range plots(r) {
		var want bytes.Buffer
		if err := plot.WriteSVG(&want); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(docs, recordedFolder, name))
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("docs/%s/%s is not that of the recorded report (%v)", recordedFolder, name, err)
		}
	}
}

func TestChecks_LookAtTheMedians(t *testing.T) {
	r := &report.Report{}
	w := r.Begin(report.Workload{Name: jobs.Workload})
	w.Add(jobs.RateRow(compareWorkers), jobs.SideWindlass, report.PerSecond, 1, 200, 1000)
	w.Add(jobs.RateRow(compareWorkers), jobs.SideRiver, report.PerSecond, 100)
	w.Add(jobs.RateRow(compareWorkers), jobs.SideWindlassTuned, report.PerSecond, 300)
	w.Add(jobs.RateRow(compareWorkers), jobs.SideRiverTuned, report.PerSecond, 300)
	w.Add(jobs.RateRow(compareWorkers), jobs.SideAsynq, report.PerSecond, 400)
	w.Add(jobs.RateRow(compareWorkers), jobs.SideBare, report.PerSecond, 500)
	e := r.Begin(report.Workload{Name: elections.Workload})
	e.Add(elections.HandOverRow(3), elections.SideWindlass, report.Milliseconds, 1.05)
	e.Add(elections.HandOverRow(3), elections.SideEtcd, report.Milliseconds, 1)
	f := r.Begin(report.Workload{Name: fleet.Workload, Sides: []report.Side{{Name: "slow"}, {Name: "fast"}}})
	f.Add(fleet.PlacedRow, "slow", report.Times, 0.3)
	f.Add(fleet.PlacedRow, "fast", report.Times, 0.4)
	g := r.Begin(report.Workload{Name: growth.Workload})
	g.Add(growth.RowPlace, growth.SideGrowth, report.Times, 1.5)
	want := []bool{true, false, true, true, true, true, false, true, false}
	got := checks(r)
	if len(got) != len(want) {
		t.Fatalf("there are %d checks: %+v", len(got), got)
	}
	for i, c := range got {
		if c.Holds != want[i] {
			t.Errorf("%+v, want %v", c, want[i])
		}
	}
}
