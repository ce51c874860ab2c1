// Package growth measures how each cost of Windlass grows with the number of tasks:
// what there is for each task should cost as much with many as with few.
package growth

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-go/windlass/bench/internal/fleet"
	"github.com/windlass-go/windlass/bench/internal/report"
	"github.com/windlass-go/windlass/bench/internal/servers"
	"github.com/windlass-go/windlass/bench/internal/stats"
	"github.com/windlass-go/windlass/internal/loadgen"
)

// Config says how much to measure. All fields must be set.
type Config struct {
	// Dir is an empty folder for the stores.
	Dir string
	// Sizes are the numbers of tasks, ascending.
	Sizes []int
	// Takes is how often Dequeue is called in a repetition.
	Takes       int
	Repetitions int
	// Timeout bounds each wait.
	Timeout time.Duration
	// Progress is told what is being done.
	Progress func(format string, args ...any)
}

// Workload is the name in the report.
const Workload = "growth"

// The rows of the table.
const (
	RowSubmit   = "submit, for each task"
	RowBusy     = "submit until all run, for each task"
	RowPlace    = "place, for each task"
	RowFailover = "failover, for each task of the killed node"
	RowList     = "list, for each task"
	RowDequeue  = "one Dequeue with so many pending"
	RowMemory   = "memory of a node, for each task"
)

// Rows are all of them.
var Rows = []string{RowSubmit, RowBusy, RowPlace, RowFailover, RowList, RowDequeue, RowMemory}

const (
	// SideGrowth is the column with the growth of a cost, and growthFrom the number
	// of tasks from which on it counts: below, what each run costs once is a large
	// part.
	SideGrowth = "growth"
	growthFrom = 1000
	// sessionTTL is that of the nodes: the least, for a killed one is waited for.
	sessionTTL = 5 * time.Second
	// idleFor is how long nothing happens before memory is looked at.
	idleFor = time.Second
)

// Run measures.
func Run(ctx context.Context, c Config, r *report.Report) error {
	w := r.Begin(report.Workload{
		Name: Workload, Title: "How costs grow",
		About: fmt.Sprintf("Windlass with more and more tasks, three node processes and an etcd of one member with every write on disk. *Growth* is the cost with the most "+
			"tasks beside that with %s: 1 is a cost that does not depend on their number. *Submit* is measured while no task may run yet, and *place* from when all may; "+
			"*submit until all run* is both at once.", report.Number(growthFrom)),
	})
	for _, size := range c.Sizes {
		w.Sides = append(w.Sides, report.Side{Name: Side(size)})
	}
	w.Sides = append(w.Sides, report.Side{Name: SideGrowth})
	for round := range c.Repetitions {
		for _, i := range stats.Turns(len(c.Sizes), round) {
			size := c.Sizes[i]
			if err := c.trial(ctx, w, size, fmt.Sprintf("growth-%d-%d", size, round)); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				r.LeaveOut("growth, %d tasks, round %d: %v", size, round+1, err)
				c.Progress("growth: %d tasks failed: %v", size, err)
				continue
			}
			c.Progress("growth: %d tasks, round %d: measured", size, round+1)
		}
	}
	c.grown(w)
	return nil
}

// Side names the column of a size.
func Side(size int) string { return report.Number(float64(size)) }

// grown adds the growth of each cost.
func (c Config) grown(w *report.Workload) {
	most := 0
	for _, size := range c.Sizes {
		most = max(most, size)
	}
	if most <= growthFrom {
		return
	}
	for _, row := range Rows {
		from, to := w.Find(row, Side(growthFrom)), w.Find(row, Side(most))
		if from != nil && to != nil && from.Median > 0 {
			w.Add(row, SideGrowth, report.Times, to.Median/from.Median)
		}
	}
}

// trial measures one size once.
func (c Config) trial(ctx context.Context, w *report.Workload, size int, name string) error {
	if err := c.on(ctx, name, func(endpoints []string) error { return c.fleet(ctx, w, endpoints, size) }); err != nil {
		return err
	}
	return c.on(ctx, name+"-pending", func(endpoints []string) error {
		bounded, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it took longer than %v", c.Timeout))
		defer cancel()
		list, dequeue, err := pending(bounded, endpoints, size, c.Takes)
		if err != nil {
			return err
		}
		w.Add(RowList, Side(size), report.Microseconds, list)
		w.Add(RowDequeue, Side(size), report.Microseconds, dequeue)
		return nil
	})
}

// on has something measured on an etcd of its own.
func (c Config) on(ctx context.Context, name string, measure func(endpoints []string) error) error {
	server, err := servers.StartEtcd(ctx, filepath.Join(c.Dir, name), 1)
	if err != nil {
		return err
	}
	return errors.Join(measure(server.Endpoints), server.Close())
}

// fleet measures what "windlass bench" does.
func (c Config) fleet(ctx context.Context, w *report.Workload, endpoints []string, size int) error {
	measured, err := fleet.Bench{
		Endpoints: endpoints, Tasks: size, IdleFor: idleFor, SessionTTL: sessionTTL, Timeout: c.Timeout,
		Phases: []string{loadgen.PhaseSubmit, loadgen.PhasePlace, loadgen.PhaseIdle, loadgen.PhaseFailover},
	}.Run(ctx)
	if err != nil {
		return err
	}
	for _, f := range []struct{ row, phase, figure string }{
		{RowSubmit, loadgen.PhasePlace, "submitted, tasks blocked"}, {RowBusy, loadgen.PhaseSubmit, "placed, submission included"}, {RowPlace, loadgen.PhasePlace, "placed"}, {RowFailover, loadgen.PhaseFailover, "restarted"},
	} {
		rate, err := fleet.Find(measured, f.phase, f.figure)
		if err != nil {
			return err
		}
		w.Add(f.row, Side(size), report.Microseconds, stats.Ratio(1e6, rate.Value))
	}
	memory, err := fleet.Find(measured, loadgen.PhaseIdle, "heap and stacks for a task")
	if err != nil {
		return err
	}
	w.Add(RowMemory, Side(size), report.Kilobytes, memory.Value)
	return nil
}

// Plots are those of the workload, by the names of their files: the times and the
// memory.
func Plots(w *report.Workload) map[string]report.Plot {
	plot := func(title, unit string, rows ...string) report.Plot {
		p := report.Plot{Title: title, X: "tasks", Y: unit}
		for _, row := range rows {
			line := report.Line{Name: strings.SplitN(row, ",", 2)[0]}
			for _, side := range w.Sides {
				size, err := strconv.Atoi(strings.ReplaceAll(side.Name, ",", ""))
				if m := w.Find(row, side.Name); err == nil && m != nil {
					line.Points = append(line.Points, report.Point{X: float64(size), Y: m.Median})
				}
			}
			p.Lines = append(p.Lines, line)
		}
		return p
	}
	return map[string]report.Plot{
		"growth-time.svg":   plot("Time for each task", report.Microseconds, RowSubmit, RowBusy, RowPlace, RowFailover, RowList, RowDequeue),
		"growth-memory.svg": plot("Memory of a node for each task", report.Kilobytes, RowMemory),
	}
}
