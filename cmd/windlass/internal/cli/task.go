package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/view"
)

func (a *app) taskCommand() *cobra.Command {
	cmd := group("task", "Submit, direct, list and look at tasks",
		a.submitCommand(), a.taskListCommand(), a.taskFailuresCommand(), a.taskGetCommand(), a.taskExplainCommand(), a.taskHistoryCommand(), a.taskLogsCommand(),
		a.taskWaitCommand(), a.taskDeleteCommand(), a.taskPruneCommand())
	cmd.AddCommand(a.sendCommands()...)
	return cmd
}

func (a *app) taskListCommand() *cobra.Command {
	var filter windlass.Filter
	var statuses []string
	var follow, count bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks, live and done",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if filter.Statuses, err = statusesOf("--status", statuses, windlass.Statuses); err != nil {
				return err
			}
			if follow && count {
				return usagef("--watch and --count exclude each other")
			}
			return a.withClient(cmd.Context(), func(c *windlass.Client) error {
				switch {
				case follow:
					return a.watchTasks(cmd.Context(), c, filter)
				case count:
					return a.countTasks(cmd.Context(), c, filter)
				}
				tasks, err := c.Tasks(cmd.Context(), filter)
				if err != nil {
					return err
				}
				tasks = append([]windlass.TaskInfo{}, tasks...) // [] in JSON for none
				a.warnUnused(cmd.Context(), c, len(tasks))
				return a.print(tasks, func() table { return taskTable(tasks, time.Now()) })
			})
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&filter.Types, "type", nil, "only these types")
	flags.StringSliceVar(&statuses, "status", nil, "only these statuses: "+names(windlass.Statuses, ", "))
	flags.StringSliceVar(&filter.Nodes, "node", nil, "only what these nodes hold, or held last")
	flags.StringVar(&filter.IDPrefix, "id-prefix", "", "only IDs that begin with this")
	flags.StringVar(&filter.Error, "error", "", "only those whose last error contains this")
	flags.BoolVarP(&follow, "watch", "w", false, "go on with every change")
	flags.BoolVar(&count, "count", false, "only count, by status")
	completeFlag(cmd, "status", windlass.Statuses)
	return a.outputFlag(cmd)
}

var taskHeading = []string{"ID", "TYPE", "STATUS", "NODE", "AGE", "CLAIMED", "ERRORS", "BLOCKED BY"}

func taskTable(tasks []windlass.TaskInfo, now time.Time) table {
	return table{heading: taskHeading, rows: rowsOf(tasks, func(t windlass.TaskInfo) []string { return taskRow(t, now) })}
}

func taskRow(t windlass.TaskInfo, now time.Time) []string {
	return []string{
		t.ID, view.OrDash(t.Type), string(t.Status), view.OrDash(t.Node), view.Age(t.SubmittedAt, now), view.Age(t.ClaimedAt, now),
		strconv.Itoa(len(t.Errors)), view.OrDash(strings.Join(t.BlockedBy, ",")),
	}
}

func (a *app) countTasks(ctx context.Context, c *windlass.Client, filter windlass.Filter) error {
	counts, err := c.Count(ctx, filter)
	if err != nil {
		return err
	}
	a.warnUnused(ctx, c, len(counts))
	return a.print(counts, func() table {
		t := table{heading: []string{"STATUS", "TASKS"}}
		total := 0
		for _, s := range windlass.Statuses {
			if counts[s] > 0 {
				t.add(string(s), strconv.Itoa(counts[s]))
				total += counts[s]
			}
		}
		t.add("total", strconv.Itoa(total))
		return t
	})
}

func (a *app) watchTasks(ctx context.Context, c *windlass.Client, filter windlass.Filter) error {
	lines := lineWriter{app: a, heading: taskHeading, widths: []int{24, 8, 10, 16, 6, 8, 7, 0}}
	return watch(lines, c.WatchTasks(ctx, filter), func(change windlass.TaskChange) (any, []string) {
		if change.Gone {
			return map[string]any{"id": change.Task.ID, "gone": true}, []string{change.Task.ID, "", "gone"}
		}
		return change.Task, taskRow(change.Task, time.Now())
	})
}

func (a *app) taskGetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "get ID",
		Short:             "Show everything about one task",
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeTasks,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, args []string) error {
			task, err := c.Task(ctx, args[0])
			if err != nil {
				return err
			}
			// Progress that cannot be read hides nothing else.
			progress, err := c.Progress(ctx, args[0])
			full := view.Task{TaskDetail: task, Progress: progress}
			return errors.Join(a.print(full, func() table { return detailTable(full) }), err)
		}),
	}
	return a.outputFlag(cmd)
}

func detailTable(t view.Task) table {
	now := time.Now()
	detail := table{rows: [][]string{
		{"ID", t.ID}, {"Type", view.OrDash(t.Type)}, {"Status", string(t.Status)}, {"Node", view.OrDash(t.Node)},
		{"Token", strconv.FormatInt(t.Token, 10)}, {"Priority", strconv.Itoa(t.Priority)},
		{"Submitted", view.Ago(t.SubmittedAt, now)}, {"Claimed", view.Ago(t.ClaimedAt, now)},
	}}
	detail.addTime("Sleeps until", t.Until)
	detail.add("Blocked by", strings.Join(t.BlockedBy, ", "))
	detail.add("Props", string(t.Props))
	detail.add("Progress", string(t.Progress))
	detail.add("Result", string(t.Result))
	detail.addErrors(t.Errors)
	return detail
}

func (a *app) taskDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "delete ID...",
		Short:             "Delete live tasks; a running one is stopped",
		Args:              minimumArgs("ID"),
		ValidArgsFunction: a.completeTasks,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, id := range args {
				if err := keys.CheckTaskID(id); err != nil {
					return usageError{err}
				}
			}
			return a.withClient(cmd.Context(), func(c *windlass.Client) error {
				var failed error
				for _, id := range args {
					if err := c.Delete(cmd.Context(), id); err != nil {
						failed = errors.Join(failed, err)
						continue
					}
					fmt.Fprintf(a.err, "deleted %s\n", view.Printable(id))
				}
				return failed
			})
		},
	}
}

func (a *app) taskLogsCommand() *cobra.Command {
	var follow, raw bool
	var lines int
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Print the output of a task that runs, or ran, an OS command on this host",
		Long: `Print what a task's command has written to standard output and error, as kept
by the node that runs it. It can be read on that node's host only.

What would do something to a terminal, and bytes that are no text, are shown as escapes
such as \x1b; with --raw everything comes as it was written.`,
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeTasks,
		RunE: func(cmd *cobra.Command, args []string) error {
			var dir string
			err := a.withClient(cmd.Context(), func(c *windlass.Client) (err error) {
				dir, err = logDir(cmd.Context(), c, args[0])
				return err
			})
			if err != nil {
				return err
			}
			if raw {
				err = exectask.Tail(cmd.Context(), a.out, dir, args[0], lines, follow)
			} else {
				out := view.Escaper(a.out)
				err = errors.Join(exectask.Tail(cmd.Context(), out, dir, args[0], lines, follow), out.Close())
			}
			if errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("task %q: no output is kept in %s: %w", args[0], dir, windlass.ErrNotFound)
			}
			return err
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what is added, until interrupted")
	cmd.Flags().BoolVar(&raw, "raw", false, "print it as it was written")
	cmd.Flags().IntVarP(&lines, "lines", "n", -1, "only the last lines; below zero all")
	return cmd
}

// logDir finds where a task's output is kept: by its node while it runs, by its
// result afterwards.
func logDir(ctx context.Context, c *windlass.Client, id string) (string, error) {
	task, err := c.Task(ctx, id)
	if err != nil {
		return "", err
	}
	var result exectask.Outcome
	if json.Unmarshal(task.Result, &result) != nil {
		result = exectask.Outcome{}
	}
	host, dir := result.Host, result.LogDir
	if task.FinishedAt == nil && task.Node != "" {
		nodes, err := c.Nodes(ctx)
		if err != nil {
			return "", err
		}
		for _, n := range nodes {
			if n.Name == task.Node {
				host, dir = n.Host, n.LogDir
			}
		}
	}
	if dir == "" {
		return "", fmt.Errorf("task %q: no output is kept for it: it is %s, of type %q: %w", id, task.Status, task.Type, windlass.ErrNotFound)
	}
	if here, err := os.Hostname(); err == nil && here != host {
		return "", fmt.Errorf("task %q: its output is on host %s in %s, and this is %s", id, host, dir, here)
	}
	return dir, nil
}

func (a *app) completeTasks(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeIDs(cmd, windlass.Filter{IDPrefix: prefix})
}

func (a *app) completeLive(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeIDs(cmd, windlass.Filter{IDPrefix: prefix, Statuses: view.Live})
}

func (a *app) completeEnded(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeIDs(cmd, windlass.Filter{IDPrefix: prefix, Statuses: view.Ended})
}

func (a *app) completeIDs(cmd *cobra.Command, filter windlass.Filter) ([]string, cobra.ShellCompDirective) {
	return complete(cmd, func(ctx context.Context, offer func(string)) error {
		return a.withClient(ctx, func(c *windlass.Client) error {
			tasks, err := c.Tasks(ctx, filter)
			for _, t := range tasks {
				offer(t.ID)
			}
			return err
		})
	})
}
