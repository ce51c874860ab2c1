package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/tree"
)

// lookEvery is how often the tree is read, at most, to show how far it has come.
const lookEvery = 500 * time.Millisecond

// await shows on one line how far the jobs have come, until the report is there. A
// job that has failed for good is drawn, and ends it.
func await(ctx context.Context, jobs *tree.Tree, out io.Writer) error {
	for forest, err := range jobs.Watch(ctx, lookEvery) {
		if err != nil {
			return err
		}
		p := forest.Progress(time.Now())
		fmt.Fprintf(out, "\r%-70s", line(p))
		if job, ok := forest.Get(reportPath); ok && job.Completed() {
			fmt.Fprintln(out)
			return nil
		}
		if err := failure(forest); err != nil {
			fmt.Fprintln(out)
			return errors.Join(err, forest.Draw(out, tree.DrawOptions{ChildrenMax: 5}))
		}
	}
	return context.Cause(ctx)
}

// failure is why the first of the jobs that failed or were killed was so, nil if
// there is none.
func failure(forest *tree.Forest) error {
	for _, job := range forest.Jobs() {
		if !job.Ended() || job.Completed() {
			continue
		}
		why := job.Reason
		if n := len(job.Errors); n > 0 {
			why = job.Errors[n-1].Error
		}
		return fmt.Errorf("job %s is %s: %s", job.Path, job.Status, why)
	}
	return nil
}

// line says how far it is: 1042 of 2123 jobs, 49%, 12 running, 300/s, 4s left.
func line(p tree.Progress) string {
	text := fmt.Sprintf("%d of %d jobs, %.0f%%, %d running", p.Done, p.Total, p.Percent, p.Counts[windlass.StatusRunning])
	if p.Left != nil && p.Rate > 0 {
		text += fmt.Sprintf(", %.0f/s, %v left", p.Rate, p.Left.Round(time.Second))
	}
	return text
}
