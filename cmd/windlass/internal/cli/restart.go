package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/commands"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

// restartBatchMax limits the tasks of a batch: each is looked at every restartLookEvery.
const (
	restartBatchMax  = 1000
	restartLookEvery = 250 * time.Millisecond
)

// restartInBatches restarts so many tasks at the same time, and the next ones once these
// run again. After a batch that does not, the rest stays as it is.
func (a *app) restartInBatches(ctx context.Context, c *windlass.Client, ids []string, batch int, timeout time.Duration) []*commands.Result {
	all := make([]*commands.Result, 0, len(ids))
	bar := a.newProgress("restarting", len(ids))
	defer bar.end()
	var failed error
	for some := range slices.Chunk(ids, batch) {
		if failed = cmp.Or(failed, ctx.Err()); failed != nil {
			all = append(all, leftAlone(some, failed)...)
			continue
		}
		restarted := restartBatch(ctx, c, some, timeout)
		for _, o := range restarted {
			if !goesOn(o.Err) {
				failed = cmp.Or(failed, o.Err)
			}
		}
		all = append(all, restarted...)
		bar.set(len(all))
	}
	return all
}

// goesOn reports whether the next tasks are restarted after a result: one that has ended or
// was deleted meanwhile says nothing about the others.
func goesOn(err error) bool {
	return errors.Is(err, windlass.ErrFinished) || errors.Is(err, windlass.ErrNotFound)
}

// leftAlone is what became of tasks that were not restarted.
func leftAlone(ids []string, cause error) []*commands.Result {
	all := make([]*commands.Result, len(ids))
	for i, id := range ids {
		all[i] = &commands.Result{CommandResult: view.CommandResult{ID: id, Message: commands.Restart}}
		all[i].Fail(fmt.Errorf("task %q: was not restarted: %w", id, cause))
	}
	return all
}

// restartBatch restarts tasks and waits until those that ran run again.
func restartBatch(asked context.Context, c *windlass.Client, ids []string, timeout time.Duration) []*commands.Result {
	ctx, cancel := context.WithTimeout(asked, timeout)
	defer cancel()
	tokens := map[string]int64{}
	for _, id := range ids {
		t, err := c.Task(ctx, id)
		switch {
		case errors.Is(err, windlass.ErrNotFound): // the restart says so
		case err != nil:
			return leftAlone(ids, err) // nobody could tell whether it runs again
		case t.Status == windlass.StatusRunning:
			tokens[id] = t.Token
		}
	}
	all := commands.Apply(ctx, c, commands.Command{Command: statemachine.Command{Message: commands.Restart}}, ids)
	open := slices.DeleteFunc(slices.Clone(all), func(o *commands.Result) bool { return o.Err != nil || tokens[o.ID] == 0 })
	for len(open) > 0 && pause.For(ctx, restartLookEvery) {
		open = slices.DeleteFunc(open, func(o *commands.Result) bool { return runsAgain(ctx, c, o, tokens[o.ID]) })
	}
	for _, o := range open {
		if asked.Err() != nil { // nobody waits any more
			o.Result = view.ResultSent
			continue
		}
		o.Fail(fmt.Errorf("task %q: was restarted, and does not run again within %v", o.ID, timeout))
	}
	return all
}

// runsAgain reports whether it is decided what became of a task that had a token when it
// was restarted, and notes it.
func runsAgain(ctx context.Context, c *windlass.Client, o *commands.Result, token int64) bool {
	t, err := c.Task(ctx, o.ID)
	switch {
	case ctx.Err() != nil:
		return false
	case errors.Is(err, windlass.ErrNotFound):
		o.Fail(err)
		return true
	case err != nil, t.FinishedAt == nil && (t.Token <= token || t.Status == windlass.StatusPending):
		return false // not yet
	}
	o.Status = t.Status
	if last := t.LastError(); last != "" && t.Status != windlass.StatusRunning && t.Status != windlass.StatusCompleted {
		o.Fail(fmt.Errorf("task %q: is %s after it was restarted: %s", o.ID, t.Status, last))
	} // without an error somebody has told it to
	return true
}
