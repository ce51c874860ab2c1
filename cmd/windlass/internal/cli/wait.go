package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/commands"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/view"
)

func (a *app) taskWaitCommand() *cobra.Command {
	var wanted []string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "wait ID --for STATUS[,STATUS...]",
		Short: "Wait until a task has a status",
		Long: `Wait until a task has one of some statuses, and print the one that it has.

Exit code 1 if it does not within --timeout, 3 if there is no such task, or it is
deleted meanwhile, and 4 if it ends otherwise.`,
		Example: `  windlass task wait nightly --for completed --timeout 1h
  windlass task wait nightly --for running,completed`,
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeTasks,
		RunE: func(cmd *cobra.Command, args []string) error {
			statuses, err := checkWait(args[0], wanted, timeout)
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(c *windlass.Client) error {
				return a.waitFor(cmd.Context(), c, args[0], statuses, timeout)
			})
		},
	}
	cmd.Flags().StringSliceVar(&wanted, "for", nil, "the statuses to wait for, separated by commas")
	cmd.Flags().DurationVar(&timeout, "timeout", waitDefault, "how long to wait")
	completeFlag(cmd, "for", windlass.Statuses)
	return a.outputFlag(cmd)
}

func checkWait(id string, wanted []string, timeout time.Duration) ([]windlass.Status, error) {
	switch err := keys.CheckTaskID(id); {
	case err != nil:
		return nil, usageError{err}
	case len(wanted) == 0:
		return nil, usagef("--for: must name at least one status of %q", windlass.Statuses)
	case timeout <= 0:
		return nil, usagef("--timeout %v: must be positive", timeout)
	}
	return statusesOf("--for", wanted, windlass.Statuses)
}

func (a *app) waitFor(ctx context.Context, c *windlass.Client, id string, statuses []windlass.Status, timeout time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	bar := a.newProgress(fmt.Sprintf("waiting for %s to be %s", id, names(statuses, " or ")), 0)
	task, err := c.Wait(bounded, id, statuses...)
	bar.end()
	switch {
	case err == nil:
		return a.print(task, func() table { return table{rows: [][]string{{string(task.Status)}}} })
	case ctx.Err() != nil:
		return ctx.Err()
	case bounded.Err() == nil, commands.Decided(err):
		return err
	}
	is := "it could not be read"
	if task.Status != "" {
		is = "it is " + statusOf(view.Task{TaskDetail: task})
	}
	return fmt.Errorf("task %q: not %s within %v; %s", id, names(statuses, " or "), timeout, is)
}
