package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/orders"
	"github.com/windlass-go/windlass/statemachine"
)

// sendBatch is how many commands are sent at once, between two updates of the
// progress.
const sendBatch = 500

// send sends a command to tasks. Those that an interrupt keeps from being sent
// fail with it.
func (a *app) send(ctx context.Context, c *windlass.Client, command statemachine.Command, ids []string) []*orders.Order {
	all := make([]*orders.Order, 0, len(ids))
	bar := a.newProgress("sending", len(ids))
	for some := range slices.Chunk(ids, sendBatch) {
		all = append(all, orders.Send(ctx, c, command, some)...)
		bar.set(len(all))
	}
	bar.end()
	return all
}

// await waits until the commands that were sent have been carried out.
func (a *app) await(ctx context.Context, c *windlass.Client, all []*orders.Order, timeout time.Duration) {
	total := 0
	for _, o := range all {
		if o.Err == nil {
			total++
		}
	}
	bar := a.newProgress("waiting", total)
	open := orders.Await(ctx, c, all, timeout, func(open int) { bar.set(total - open) })
	bar.end()
	if ctx.Err() != nil {
		return // the open ones stay as sent
	}
	for _, o := range open {
		o.Fail(fmt.Errorf("command %s to task %q: was sent, and not carried out within %v", o.Message, o.ID, timeout))
	}
}

// report prints what became of the commands; the first that failed decides about
// the exit code.
func (a *app) report(ctx context.Context, all []*orders.Order) error {
	printed := a.print(all, func() table {
		t := table{heading: []string{"ID", "MESSAGE", "RESULT"}}
		for _, o := range all {
			t.rows = append(t.rows, []string{o.ID, string(o.Message), orderResult(o)})
		}
		return t
	})
	if ctx.Err() != nil {
		return errors.Join(printed, ctx.Err())
	}
	var first error
	failed := 0
	for _, o := range all {
		if o.Err != nil {
			first = keepFirst(first, o.Err)
			failed++
		}
	}
	if first != nil && len(all) > 1 {
		first = fmt.Errorf("%d of %d commands failed; the first: %w", failed, len(all), first)
	}
	return errors.Join(printed, first)
}

func orderResult(o *orders.Order) string {
	switch {
	case o.Err != nil:
		return o.Result + ": " + o.Error
	case o.Status != "":
		return o.Result + ": " + string(o.Status)
	}
	return o.Result
}
