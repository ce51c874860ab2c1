package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

// sentOrder is a command to a task, what became of it and why.
type sentOrder struct {
	view.Order

	sent windlass.SentCommand
	err  error
}

func (o *sentOrder) fail(err error) {
	o.Result, o.Error, o.err = view.ResultFailed, err.Error(), err
}

// sendBatch is how many commands are sent at once, between two updates of the
// progress.
const sendBatch = 500

// send sends a command to tasks. Those that an interrupt keeps from being sent
// fail with it.
func (a *app) send(ctx context.Context, c *windlass.Client, command statemachine.Command, ids []string) []*sentOrder {
	orders := make([]*sentOrder, 0, len(ids))
	bar := a.newProgress("sending", len(ids))
	for some := range slices.Chunk(ids, sendBatch) {
		batch := make([]windlass.TaskCommand, len(some))
		for i, id := range some {
			batch[i] = windlass.TaskCommand{ID: id, Command: command}
		}
		sent, errs := c.SendTasks(ctx, batch)
		for i, s := range sent {
			o := &sentOrder{Order: view.Order{ID: s.ID, Message: command.Message, Result: view.ResultSent}, sent: s}
			if errs[i] != nil {
				o.fail(errs[i])
			}
			orders = append(orders, o)
		}
		bar.set(len(orders))
	}
	bar.end()
	return orders
}

// awaitersMax bounds the commands that are waited for at the same time.
const awaitersMax = 16

// patienceMin is how long the first pass waits for one command. Each pass waits
// twice as long, so that commands that nobody carries out do not keep the others
// from being looked at.
const patienceMin = 250 * time.Millisecond

// await waits until the commands that were sent have been carried out.
func (a *app) await(ctx context.Context, c *windlass.Client, orders []*sentOrder, timeout time.Duration) {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	open := slices.Clone(orders)
	open = slices.DeleteFunc(open, func(o *sentOrder) bool { return o.Result != view.ResultSent })
	total := len(open)
	bar := a.newProgress("waiting", total)
	for patience := patienceMin; len(open) > 0 && bounded.Err() == nil; patience = min(2*patience, timeout) {
		open = awaitPass(bounded, c, open, patience)
		bar.set(total - len(open))
	}
	bar.end()
	if ctx.Err() != nil {
		return // the open ones stay as sent
	}
	for _, o := range open {
		o.fail(fmt.Errorf("command %s to task %q: was sent, and not carried out within %v", o.Message, o.ID, timeout))
	}
}

// awaitPass gives each command some time, and returns those that are still to be
// carried out.
func awaitPass(ctx context.Context, c *windlass.Client, open []*sentOrder, patience time.Duration) []*sentOrder {
	next := make(chan *sentOrder)
	var awaiters sync.WaitGroup
	for range min(awaitersMax, len(open)) {
		awaiters.Go(func() {
			for o := range next {
				o.await(ctx, c, patience)
			}
		})
	}
	for _, o := range open {
		next <- o
	}
	close(next)
	awaiters.Wait()
	return slices.DeleteFunc(open, func(o *sentOrder) bool { return o.Result != view.ResultSent })
}

// await leaves the result as it is if there is none in time.
func (o *sentOrder) await(ctx context.Context, c *windlass.Client, patience time.Duration) {
	if ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	task, err := c.AwaitCommand(ctx, o.sent)
	switch {
	case err == nil:
		o.Result, o.Status = view.ResultDone, task.Status
	case ctx.Err() == nil, decided(err):
		o.fail(err)
	}
}

// decided tells whether waiting failed for what became of the task, rather than
// for want of time.
func decided(err error) bool {
	return errors.Is(err, windlass.ErrNotFound) || errors.Is(err, windlass.ErrFinished) ||
		errors.Is(err, windlass.ErrSuperseded) || errors.Is(err, windlass.ErrDiscarded)
}

// report prints what became of the commands; the first that failed decides about
// the exit code.
func (a *app) report(ctx context.Context, orders []*sentOrder) error {
	printed := a.print(orders, func() table {
		t := table{heading: []string{"ID", "MESSAGE", "RESULT"}}
		for _, o := range orders {
			t.rows = append(t.rows, []string{o.ID, string(o.Message), o.result()})
		}
		return t
	})
	if ctx.Err() != nil {
		return errors.Join(printed, ctx.Err())
	}
	var first error
	failed := 0
	for _, o := range orders {
		if o.err != nil {
			first = keepFirst(first, o.err)
			failed++
		}
	}
	if first != nil && len(orders) > 1 {
		first = fmt.Errorf("%d of %d commands failed; the first: %w", failed, len(orders), first)
	}
	return errors.Join(printed, first)
}

func (o *sentOrder) result() string {
	switch {
	case o.err != nil:
		return o.Result + ": " + o.Error
	case o.Status != "":
		return o.Result + ": " + string(o.Status)
	}
	return o.Result
}
