package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/windlass-go/windlass/bench/internal/report"
	"github.com/windlass-go/windlass/bench/internal/stats"
)

// Config says how much to measure. All fields but Sides must be set.
type Config struct {
	// Dir is an empty folder for the stores.
	Dir string
	// Workers are the numbers of worker processes.
	Workers []int
	// Jobs is how many are counted in a trial, WarmUp how many come before.
	Jobs, WarmUp int
	// Latencies is how many jobs are queued one by one in a trial, with nothing
	// else to do.
	Latencies int
	// Repetitions is how many trials there are of each side and number of workers.
	Repetitions int
	// Sides are the names of those to measure; none means all.
	Sides []string
	// Timeout bounds a trial.
	Timeout time.Duration
	// Progress is told what is being done.
	Progress func(format string, args ...any)
}

// Workload is the name in the report.
const Workload = "jobs"

// RateRowEnd is what the names of all rows of rates end with.
const RateRowEnd = "jobs submitted and completed"

// RateRow names the row of the rates.
func RateRow(workers int) string { return row(workers, RateRowEnd) }

func row(workers int, what string) string {
	if workers == 1 {
		return "1 worker process: " + what
	}
	return fmt.Sprintf("%d worker processes: %s", workers, what)
}

// Run measures, and goes on without the sides that are not installed or fail.
func Run(ctx context.Context, c Config, r *report.Report) error {
	w := r.Begin(report.Workload{
		Name: Workload, Title: "Jobs that do nothing",
		About: fmt.Sprintf("From the first of %s jobs that is submitted until the last one is completed and stored, after %s that do not count. Each worker is a "+
			"process, and so is the store; everything goes through TCP on one machine, and every side has the machine for itself. The times of one "+
			"job are of jobs that are submitted one by one while nothing else is to be done. What the store needs is the processor time of all its "+
			"processes while the jobs ran.", report.Number(float64(c.Jobs)), report.Number(float64(c.WarmUp))),
	})
	var there []side
	for _, s := range sides {
		if len(c.Sides) > 0 && !slices.Contains(c.Sides, s.name) {
			continue
		}
		if missing := s.missing(); missing != "" {
			r.LeaveOut("jobs, %s: %s", s.name, missing)
			continue
		}
		there = append(there, s)
		w.Sides = append(w.Sides, report.Side{Name: s.name, Settings: s.settings})
	}
	for _, workers := range c.Workers {
		for round := range c.Repetitions {
			for _, i := range stats.Turns(len(there), round) {
				if there[i].alone && workers != slices.Max(c.Workers) {
					continue
				}
				result, err := c.trial(ctx, there[i], workers, fmt.Sprintf("jobs-%d-%d-%d", workers, round, i))
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err != nil {
					r.LeaveOut("jobs, %s, %d worker process(es), round %d: %v", there[i].name, workers, round+1, err)
					c.Progress("jobs: %s failed: %v", there[i].name, err)
					continue
				}
				result.add(w, there[i].name, workers)
				c.Progress("jobs: %s, %d worker process(es), round %d: %.0f/s", there[i].name, workers, round+1, result.rate)
			}
		}
	}
	return nil
}

// result is what a trial gave.
type result struct {
	rate float64
	// ran and done are the times of jobs by themselves until their handler ran and
	// until they were completed, in milliseconds.
	ran, done []float64
	// store and workers are the processor time for a job, in microseconds, zero
	// where the system does not tell; busy is how much of the time the store's
	// processes ran, of one processor, in percent.
	store, workers, busy float64
}

func (t result) add(w *report.Workload, side string, workers int) {
	w.Add(RateRow(workers), side, report.PerSecond, t.rate)
	if len(t.ran) > 0 {
		w.Add(row(workers, "a job by itself, until it runs: median"), side, report.Milliseconds, stats.Median(t.ran))
		w.Add(row(workers, "a job by itself, until it is completed: median"), side, report.Milliseconds, stats.Median(t.done))
		w.Add(row(workers, "a job by itself, until it is completed: p95"), side, report.Milliseconds, stats.Percentile(t.done, 95)).Detail = true
	}
	if t.store > 0 {
		w.Add(row(workers, "processor time of the store for a job"), side, report.Microseconds, t.store)
		if t.workers > 0 {
			w.Add(row(workers, "processor time of the workers for a job"), side, report.Microseconds, t.workers)
		}
		w.Add(row(workers, "the store is busy, of one processor"), side, report.Percent, t.busy)
	}
}

// trial measures one side once.
func (c Config) trial(ctx context.Context, s side, workers int, name string) (t result, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it took longer than %v", c.Timeout))
	defer cancel()
	store, err := s.open(ctx, filepath.Join(c.Dir, name))
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, store.close()) }()
	latencies := c.Latencies
	if s.alone {
		workers, latencies = 0, 0
	}
	f, err := startFleet(ctx, store, workers)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	if err := f.work(ctx, c.WarmUp); err != nil {
		return t, fmt.Errorf("warm up: %w", err)
	}
	usage := f.usage()
	began := time.Now()
	if err := f.work(ctx, c.Jobs); err != nil {
		return t, err
	}
	took := f.last.Sub(began)
	t.rate = float64(c.Jobs) / took.Seconds()
	t.store, t.workers, t.busy = f.usage().since(usage, c.Jobs, took)
	for range latencies {
		ran, done, err := f.one(ctx)
		if err != nil {
			return t, fmt.Errorf("one job: %w", err)
		}
		t.ran, t.done = append(t.ran, ran), append(t.done, done)
	}
	return t, nil
}

// encode is an order as an argument of a process.
func (o order) encode() (string, error) {
	text, err := json.Marshal(o)
	return string(text), err
}
