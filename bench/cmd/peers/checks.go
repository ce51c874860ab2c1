package main

import (
	"fmt"
	"strings"

	"github.com/windlass-go/windlass/bench/internal/elections"
	"github.com/windlass-go/windlass/bench/internal/fleet"
	"github.com/windlass-go/windlass/bench/internal/growth"
	"github.com/windlass-go/windlass/bench/internal/jobs"
	"github.com/windlass-go/windlass/bench/internal/report"
	"github.com/windlass-go/windlass/bench/internal/stats"
)

// How far a ratio may be off before it counts, which is what the speed of a machine
// varies by within minutes.
const (
	handOverTolerance = 1.05
	growthMax         = 1.25
	placedMin         = 1.0 / 3
	// compareWorkers is the number of worker processes that is looked at.
	compareWorkers = 3
)

// checks looks whether a comparison shows what it should. What was not measured is
// not looked at.
func checks(r *report.Report) (all []report.Check) {
	if w := r.Workload(jobs.Workload); w != nil {
		for _, c := range []struct {
			what, side, other string
			least             float64
		}{
			{"%s: with %d worker processes at least as many jobs a second as %s", jobs.SideWindlass, jobs.SideRiver, 1},
			{"%s: with %d worker processes at least as many jobs a second as %s", jobs.SideWindlass, jobs.SideAsynq, 1},
			{"%s: with %d worker processes at least as many jobs a second as %s", jobs.SideWindlassTuned, jobs.SideRiverTuned, 1},
			{"%s: with %d worker processes at least half of the store's limit, %s", jobs.SideWindlassTuned, jobs.SideBare, 0.5},
			{"%s: that limit, beside %d worker processes of %s", jobs.SideBare, jobs.SideRiverTuned, 1},
		} {
			if ratio, ok := beside(w, jobs.RateRow(compareWorkers), c.side, c.other); ok {
				all = append(all, check(fmt.Sprintf(c.what, c.side, compareWorkers, c.other), ratio, ratio >= c.least))
			}
		}
	}
	if w := r.Workload(elections.Workload); w != nil {
		for _, row := range rowsOf(w) {
			if !strings.HasSuffix(row, "median") {
				continue
			}
			if ours, theirs := w.Find(row, elections.SideWindlass), w.Find(row, elections.SideEtcd); ours != nil && theirs != nil && ours.Count > 0 {
				ratio := stats.Paired(ours.Samples, theirs.Samples)
				all = append(all, check(fmt.Sprintf("no slower than concurrency.Election, within a twentieth: %s", row), ratio, ratio <= handOverTolerance))
			}
		}
	}
	if w := r.Workload(fleet.Workload); w != nil {
		for _, side := range w.Sides {
			if m := w.Find(fleet.PlacedRow, side.Name); m != nil && m.Count > 0 {
				all = append(all, check(fmt.Sprintf("at least a third of the bare claims in bulk: tasks placed, %s", side.Name), m.Median, m.Median >= placedMin))
			}
		}
	}
	if w := r.Workload(growth.Workload); w != nil {
		for _, row := range growth.Rows {
			if m := w.Find(row, growth.SideGrowth); m != nil && m.Count > 0 {
				all = append(all, check(fmt.Sprintf("does not grow, within a quarter: %s", row), m.Median, m.Median <= growthMax))
			}
		}
	}
	return all
}

func check(what string, ratio float64, holds bool) report.Check {
	return report.Check{What: what, Got: report.WithUnit(ratio, report.Times), Holds: holds}
}

// beside is the median of a side beside that of another one.
func beside(w *report.Workload, row, side, other string) (ratio float64, ok bool) {
	a, b := w.Find(row, side), w.Find(row, other)
	if a == nil || b == nil || b.Median == 0 {
		return 0, false
	}
	return stats.Ratio(a.Median, b.Median), true
}

// rowsOf are those that were measured.
func rowsOf(w *report.Workload) (rows []string) {
	seen := map[string]bool{}
	for _, m := range w.Measures {
		if !seen[m.Row] && !m.Detail {
			rows = append(rows, m.Row)
		}
		seen[m.Row] = true
	}
	return rows
}
