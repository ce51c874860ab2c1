// Package commands sends commands to tasks, and waits until they were carried out.
package commands

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

// Result is a command to a task, and what came of it.
type Result struct {
	view.CommandResult

	// Sent is the command as it was sent.
	Sent windlass.SentCommand `json:"-"`
	// After is what a command has changed the task to, nil for no change.
	After *windlass.Submission `json:"-"`
	// Err is why it failed, nil if it has not.
	Err error `json:"-"`
}

// Fail records that and why it failed.
func (o *Result) Fail(err error) { o.Result, o.Error, o.Err = view.ResultFailed, err.Error(), err }

func send(ctx context.Context, c *windlass.Client, command statemachine.Command, ids []string) []*Result {
	batch := make([]windlass.TaskCommand, len(ids))
	for i, id := range ids {
		batch[i] = windlass.TaskCommand{ID: id, Command: command}
	}
	sent, errs := c.SendTasks(ctx, batch)
	all := make([]*Result, len(ids))
	for i, s := range sent {
		all[i] = &Result{CommandResult: view.CommandResult{ID: s.ID, Message: command.Message, Result: view.ResultSent}, Sent: s}
		switch {
		case errs[i] != nil:
			all[i].Fail(errs[i])
		case s.Done && command.Message == statemachine.Kill:
			all[i].Result, all[i].Status = view.ResultDone, windlass.StatusKilled
		case s.Done:
			all[i].Result, all[i].Status = view.ResultDone, windlass.StatusPaused
		}
	}
	return all
}

// The messages of commands that no node carries out.
const (
	// Retry submits a task that has ended again, as it was but for changes.
	Retry statemachine.Message = "retry"
	// Continue does so, too, and keeps the progress.
	Continue statemachine.Message = "continue"
	// Delete deletes a live task.
	Delete statemachine.Message = "delete"
	// Restart has a live task run again as it is.
	Restart statemachine.Message = "restart"
)

// Runs reports whether a command runs what has ended again, so that it takes a change.
func Runs(message statemachine.Message) bool { return message == Retry || message == Continue }

// Command is a command to tasks.
type Command struct {
	statemachine.Command
	// Change edits what tasks were submitted with that are to run again; nil for nothing.
	Change func(*windlass.Submission) error
	// Unblock deletes tasks for which others wait, which may then run.
	Unblock bool
	// Dependents kills what hangs below the tasks as well: what waits for them, for these,
	// and so on, and all jobs below them in the tree.
	Dependents bool
}

// Apply sends a command to tasks in few round trips, or does what no node has to carry out.
func Apply(ctx context.Context, c *windlass.Client, command Command, ids []string) []*Result {
	var errs []error
	changed := changesByID{}
	switch command.Message {
	case Retry:
		errs = c.Rerun(ctx, windlass.Rerun{Change: changed.record(command.Change)}, ids...)
	case Continue:
		errs = c.Rerun(ctx, windlass.Rerun{KeepProgress: true, Change: changed.record(command.Change)}, ids...)
	case Restart:
		errs = c.Rerun(ctx, windlass.Rerun{Live: true}, ids...)
	case Delete:
		errs = remove(ctx, c, ids, command.Unblock)
	default:
		if command.Dependents {
			return killBelow(ctx, c, command.Command, ids)
		}
		return send(ctx, c, command.Command, ids)
	}
	all := make([]*Result, len(ids))
	for i, id := range ids {
		all[i] = &Result{CommandResult: view.CommandResult{ID: id, Message: command.Message, Result: view.ResultDone}}
		if errs[i] != nil {
			all[i].Fail(errs[i])
			continue
		}
		all[i].Changes, all[i].After = changed[id].changes, changed[id].after
	}
	return all
}

// IsSent reports whether a command is carried out by nodes, so that one can wait for it.
func IsSent(message statemachine.Message) bool {
	return !Runs(message) && !slices.Contains([]statemachine.Message{Delete, Restart}, message)
}

// Among returns the statuses of the tasks that a command may go to, and of those that it
// goes to if none are named.
func Among(message statemachine.Message) (all, usual []windlass.Status) {
	switch message {
	case Retry, Continue:
		return view.Ended, []windlass.Status{windlass.StatusFailed}
	case Restart:
		running := []windlass.Status{windlass.StatusRunning}
		return running, running
	}
	return view.Live, view.Live
}

// AtOnceMax limits the calls of AtOnce at the same time: the commands that are waited for,
// the tasks that are deleted, or asked.
const AtOnceMax = 16

// AtOnce calls do with each index below n, and returns once all calls have.
func AtOnce(n int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(AtOnceMax, n) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	workers.Wait()
}

// patienceMin is how long the first pass waits for one command. Each pass waits twice as
// long, so that commands that nobody carries out do not hide the others.
const patienceMin = 250 * time.Millisecond

// Await waits, at most for limit, until the commands that were sent have been carried out,
// and returns those that are still open. It calls pass with their number after each pass
// over all of them.
func Await(ctx context.Context, c *windlass.Client, all []*Result, limit time.Duration, pass func(open int)) (open []*Result) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	isDone := func(o *Result) bool { return o.Result != view.ResultSent }
	open = slices.DeleteFunc(slices.Clone(all), isDone)
	for patience := patienceMin; len(open) > 0 && ctx.Err() == nil; patience = min(2*patience, limit) {
		AtOnce(len(open), func(i int) { open[i].await(ctx, c, patience) })
		open = slices.DeleteFunc(open, isDone)
		pass(len(open))
	}
	return open
}

// await leaves the result as it is if there is none in time.
func (o *Result) await(ctx context.Context, c *windlass.Client, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	task, err := c.AwaitCommand(ctx, o.Sent)
	switch {
	case err == nil:
		o.Result, o.Status = view.ResultDone, task.Status
	case ctx.Err() == nil, Decided(err):
		o.Fail(err)
	}
}

// Decided reports whether waiting failed because of the task, and not of the time.
func Decided(err error) bool {
	return errors.Is(err, windlass.ErrNotFound) || errors.Is(err, windlass.ErrFinished) ||
		errors.Is(err, windlass.ErrSuperseded) || errors.Is(err, windlass.ErrDiscarded)
}
