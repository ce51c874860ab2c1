package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/tree"
)

func (a *app) taskCommand() *cobra.Command {
	cmd := group("task", "Submit, direct, list and look at tasks",
		a.submitCommand(), a.taskUpdateCommand(), a.taskApplyCommand(), a.taskListCommand(), a.taskFailuresCommand(), a.taskGetCommand(), a.taskExplainCommand(), a.taskHistoryCommand(), a.taskLogsCommand(),
		a.taskWaitCommand(), a.taskPruneCommand())
	cmd.AddCommand(a.sendCommands()...)
	for _, sub := range cmd.Commands() {
		if run := sub.RunE; sub.Name() != "submit" && sub.Name() != "update" { // whose arguments may be those of a command
			sub.RunE = func(cmd *cobra.Command, args []string) error { return run(cmd, withJobIDs(args)) }
		}
	}
	return cmd
}

// withJobIDs replaces paths of jobs, in which no ID could be, by the IDs of their tasks.
func withJobIDs(args []string) []string {
	ids := slices.Clone(args)
	for i, arg := range ids {
		if path, err := tree.ParsePath(arg); err == nil && strings.Contains(arg, "/") {
			ids[i] = path.ID()
		}
	}
	return ids
}

func (a *app) taskListCommand() *cobra.Command {
	var filter windlass.Filter
	var statuses []string
	var follow, count, reverse bool
	var limit int
	var by string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks, live and done",
		Example: `  windlass task list --status failed --sort ended --reverse --limit 20
  windlass task list --node n1 --type import -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if filter.Statuses, err = statusesOf("--status", statuses, windlass.Statuses); err != nil {
				return err
			}
			flags := cmd.Flags()
			ordered := flags.Changed("sort") || flags.Changed("limit") || reverse
			switch {
			case follow && count:
				return usagef("--watch and --count exclude each other")
			case ordered && (follow || count):
				return usagef("--sort, --reverse and --limit do not go with --watch and --count")
			case taskOrders[by] == nil:
				return usagef("--sort %q: must be one of %q", by, slices.Sorted(maps.Keys(taskOrders)))
			case limit < 0:
				return usagef("--limit %d: must not be negative", limit)
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
				tasks = sorted(tasks, taskOrders[by], reverse, limit)
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
	flags.BoolVarP(&follow, "watch", "w", false, "keep running and print every change")
	flags.BoolVar(&count, "count", false, "only count, by status")
	flags.StringVar(&by, "sort", "id", "sort by "+names(slices.Sorted(maps.Keys(taskOrders)), ", "))
	flags.BoolVar(&reverse, "reverse", false, "the last ones first")
	flags.IntVar(&limit, "limit", 0, "how many at most; 0 for all")
	completeFlag(cmd, "status", windlass.Statuses)
	completeFlag(cmd, "sort", slices.Sorted(maps.Keys(taskOrders)))
	a.completeNames(cmd)
	return a.outputFlag(cmd)
}

// taskOrders are the orders of a list; tasks that are equal stay in the order of their IDs.
var taskOrders = map[string]func(a, b windlass.TaskInfo) int{
	"id":        func(a, b windlass.TaskInfo) int { return strings.Compare(a.ID, b.ID) },
	"type":      func(a, b windlass.TaskInfo) int { return strings.Compare(a.Type, b.Type) },
	"status":    func(a, b windlass.TaskInfo) int { return strings.Compare(string(a.Status), string(b.Status)) },
	"node":      func(a, b windlass.TaskInfo) int { return strings.Compare(a.Node, b.Node) },
	"errors":    func(a, b windlass.TaskInfo) int { return cmp.Compare(len(a.Errors), len(b.Errors)) },
	"priority":  func(a, b windlass.TaskInfo) int { return cmp.Compare(a.Priority, b.Priority) },
	"submitted": func(a, b windlass.TaskInfo) int { return compareTimes(a.SubmittedAt, b.SubmittedAt) },
	"claimed":   func(a, b windlass.TaskInfo) int { return compareTimes(a.ClaimedAt, b.ClaimedAt) },
	"ended":     func(a, b windlass.TaskInfo) int { return compareTimes(a.FinishedAt, b.FinishedAt) },
}

// compareTimes puts what has no time before the rest.
func compareTimes(a, b *time.Time) int {
	return cmp.Or(a, &time.Time{}).Compare(*cmp.Or(b, &time.Time{}))
}

// sorted returns the first of some tasks in an order, at most limit unless that is zero.
func sorted(tasks []windlass.TaskInfo, order func(a, b windlass.TaskInfo) int, reverse bool, limit int) []windlass.TaskInfo {
	slices.SortStableFunc(tasks, order)
	if reverse {
		slices.Reverse(tasks)
	}
	if limit > 0 {
		tasks = tasks[:min(len(tasks), limit)]
	}
	return append([]windlass.TaskInfo{}, tasks...) // [] in JSON for none
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
	if t.Command != nil {
		waits := string(t.Command.Message)
		if t.Command.Until != nil {
			waits += " until " + t.Command.Until.Format(time.RFC3339)
		}
		detail.add("Command", waits+", not carried out yet")
	}
	detail.add("Blocked by", strings.Join(t.BlockedBy, ", "))
	detail.add("Props", string(t.Props))
	detail.add("Progress", string(t.Progress))
	detail.add("Result", string(t.Result))
	detail.addErrors(t.Errors)
	return detail
}

func (a *app) taskLogsCommand() *cobra.Command {
	var follow, raw bool
	var lines int
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Print the output of a task that runs, or ran, an OS command on this host",
		Long: `Print what a task's command has written to standard output and error, as kept
by the node that runs it. It can be read on that node's host only.

Control characters and bytes that are not text are shown as escapes such as \x1b; --raw
prints the output unchanged.`,
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

// completeNames offers the types, names and labels of the nodes to the flags that take them.
func (a *app) completeNames(cmd *cobra.Command) {
	labels := func(n windlass.NodeStatus) (labels []string) {
		for name, value := range n.Labels {
			labels = append(labels, name+"="+value)
		}
		return labels
	}
	for flag, namesOf := range map[string]func(windlass.NodeStatus) []string{
		"type": func(n windlass.NodeStatus) []string { return slices.Concat(n.Types, n.Pulls) },
		"node": func(n windlass.NodeStatus) []string { return []string{n.Name} }, "label": labels, "require": labels, "prefer": labels,
	} {
		if cmd.Flags().Lookup(flag) == nil {
			continue
		}
		_ = cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return complete(cmd, func(ctx context.Context, offer func(string)) error {
				return a.withClient(ctx, func(c *windlass.Client) error {
					nodes, err := c.Nodes(ctx)
					all := map[string]bool{}
					for _, n := range nodes {
						for _, name := range namesOf(n) {
							all[name] = true
						}
					}
					for _, name := range slices.Sorted(maps.Keys(all)) {
						offer(name)
					}
					return err
				})
			})
		})
	}
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
