package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/statemachine"
)

// How long a node has to report on a command, and how often it is looked whether it has.
const (
	reportWithin = 10 * time.Second
	reportEvery  = 100 * time.Millisecond
	// reportMovedEvery is how often it is looked whether the task is still there.
	reportMovedEvery = time.Second
)

var (
	// errNoReport means that a node did not report within reportWithin.
	errNoReport = errors.New("did not report")
	// errMoved means that the task was given up before its node reported.
	errMoved = errors.New("was moved or stopped while its node was asked")
)

// askReport has the node of a task whose command runs report on it, which it stores as the
// task's progress.
func askReport(ctx context.Context, c *windlass.Client, task windlass.TaskInfo) (exectask.Report, error) {
	before, err := reportOf(ctx, c, task.ID)
	if err == nil {
		_, err = c.SendTask(ctx, task.ID, statemachine.Command{Message: statemachine.Checkpoint})
	}
	if err != nil {
		return exectask.Report{}, err
	}
	began := time.Now()
	for looked := began; time.Since(began) < reportWithin && pause.For(ctx, reportEvery); {
		report, err := reportOf(ctx, c, task.ID)
		if err != nil {
			return exectask.Report{}, err
		}
		if !report.At.IsZero() && !report.At.Equal(before.At) { // a task that ends has none any more
			return report, nil
		}
		if time.Since(looked) < reportMovedEvery {
			continue
		}
		looked = time.Now()
		now, err := c.Task(ctx, task.ID)
		switch {
		case err != nil:
			return exectask.Report{}, err
		case now.Token != task.Token || now.Status != windlass.StatusRunning:
			return exectask.Report{}, fmt.Errorf("task %q: %w", task.ID, errMoved)
		}
	}
	if ctx.Err() != nil {
		return exectask.Report{}, ctx.Err()
	}
	return exectask.Report{}, fmt.Errorf("task %q: node %s %w within %v", task.ID, task.Node, errNoReport, reportWithin)
}

// reportOf returns the report that is stored, empty if there is none.
func reportOf(ctx context.Context, c *windlass.Client, id string) (exectask.Report, error) {
	var report exectask.Report
	progress, err := c.Progress(ctx, id)
	if json.Unmarshal(progress, &report) != nil {
		report = exectask.Report{} // there is none, or something else
	}
	return report, err
}
