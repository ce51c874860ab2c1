package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

func (a *app) taskListCommand() *cobra.Command {
	var filter windlass.Filter
	var statuses []string
	var search searchFlags
	var follow, count, reverse, interruptions bool
	var limit int
	var by string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List tasks, live and done",
		Example: `  windlass task list --status failed --sort ended --reverse --limit 20
  windlass task list --node n1 --type import -o json
  windlass task list --tag tenant=t7 --since 2h
  windlass task list --sort interruptions --reverse --limit 10`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			filter.Statuses, err = statusesOf("--status", statuses, windlass.Statuses)
			if err := cmp.Or(err, search.read(cmd, &filter)); err != nil {
				return err
			}
			ordered := cmd.Flags().Changed("sort") || cmd.Flags().Changed("limit") || reverse || interruptions
			switch {
			case follow && count:
				return usagef("--watch and --count exclude each other")
			case ordered && (follow || count):
				return usagef("--sort, --reverse, --limit and --interruptions do not go with --watch and --count")
			case taskOrders[by] == nil:
				return usagef("--sort %q: must be one of %q", by, slices.Sorted(maps.Keys(taskOrders)))
			case limit < 0:
				return usagef("--limit %d: must not be negative", limit)
			}
			return a.withClientOf(cmd.Context(), func(b broker.Broker, c *windlass.Client) error {
				if follow {
					return a.watchTasks(cmd.Context(), b, c, filter)
				}
				if count {
					return a.warnSilent(cmd.Context(), b, a.countTasks(cmd.Context(), c, filter))
				}
				tasks, err := a.listTasks(cmd.Context(), c, filter, by == byInterruptions)
				if err != nil {
					return err
				}
				tasks = sorted(tasks, taskOrders[by], reverse, limit)
				if interruptions && by != byInterruptions { // only of those that are shown
					if err := readInterruptions(cmd.Context(), c, tasks); err != nil {
						return err
					}
				}
				err = a.print(tasks, func() table { return taskTable(tasks, len(filter.Tags) > 0, time.Now()) })
				return a.warnSilent(cmd.Context(), b, err)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&filter.Types, "type", nil, "only these types")
	flags.StringSliceVar(&statuses, "status", nil, "only these statuses: "+names(windlass.Statuses, ", "))
	flags.StringSliceVar(&filter.Nodes, "node", nil, "only what these nodes hold, or held last")
	search.register(cmd, &filter, "only tasks")
	flags.BoolVarP(&follow, "watch", "w", false, "keep running and print every change")
	flags.BoolVar(&count, "count", false, "only count, by status")
	flags.StringVar(&by, "sort", "id", "sort by "+names(slices.Sorted(maps.Keys(taskOrders)), ", "))
	flags.BoolVar(&reverse, "reverse", false, "the last ones first")
	flags.IntVar(&limit, "limit", 0, "how many at most; 0 for all")
	flags.BoolVar(&interruptions, "interruptions", false, "with how often each was interrupted, which reads the history of each")
	completeFlag(cmd, "status", windlass.Statuses)
	completeFlag(cmd, "sort", slices.Sorted(maps.Keys(taskOrders)))
	a.completeNames(cmd)
	return a.outputFlag(cmd)
}

// listed is a task in a list. Its JSON is stable.
type listed struct {
	windlass.TaskInfo
	// Interruptions is nil unless it was asked for.
	Interruptions *int `json:"interruptions,omitempty"`
}

func listedOf(tasks []windlass.TaskInfo) []listed {
	all := make([]listed, len(tasks)) // [] in JSON for none
	for i, t := range tasks {
		all[i].TaskInfo = t
	}
	return all
}

func (a *app) listTasks(ctx context.Context, c *windlass.Client, filter windlass.Filter, interruptions bool) ([]listed, error) {
	tasks, err := c.Tasks(ctx, filter)
	if err != nil {
		return nil, err
	}
	a.warnUnused(ctx, c, len(tasks))
	all := listedOf(tasks)
	if interruptions {
		err = readInterruptions(ctx, c, all)
	}
	return all, err
}

// readInterruptions fills in how often tasks were interrupted.
func readInterruptions(ctx context.Context, c *windlass.Client, tasks []listed) error {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	interrupted, err := inspect.New(c).Interruptions(ctx, ids...)
	for i, t := range tasks {
		n := interrupted[t.ID]
		tasks[i].Interruptions = &n
	}
	return err
}

// byInterruptions is the order that needs what a list has only when asked for it.
const byInterruptions = "interruptions"

// taskOrders are the orders of a list; tasks that are equal stay in the order of their IDs.
var taskOrders = map[string]func(a, b listed) int{
	"id":            func(a, b listed) int { return strings.Compare(a.ID, b.ID) },
	"type":          func(a, b listed) int { return strings.Compare(a.Type, b.Type) },
	"status":        func(a, b listed) int { return strings.Compare(string(a.Status), string(b.Status)) },
	"node":          func(a, b listed) int { return strings.Compare(a.Node, b.Node) },
	"errors":        func(a, b listed) int { return cmp.Compare(view.ErrorCount(a.TaskInfo), view.ErrorCount(b.TaskInfo)) },
	"restarts":      func(a, b listed) int { return cmp.Compare(restartCount(a), restartCount(b)) },
	"priority":      func(a, b listed) int { return cmp.Compare(a.Priority, b.Priority) },
	"submitted":     func(a, b listed) int { return compareTimes(a.SubmittedAt, b.SubmittedAt) },
	"claimed":       func(a, b listed) int { return compareTimes(a.ClaimedAt, b.ClaimedAt) },
	"ended":         func(a, b listed) int { return compareTimes(a.FinishedAt, b.FinishedAt) },
	byInterruptions: func(a, b listed) int { return cmp.Compare(*a.Interruptions, *b.Interruptions) },
}

// restartCount is how often the handler of a task has started again what it runs.
func restartCount(t listed) int { return cmp.Or(t.Restarts, &statemachine.Restarts{}).Count }

// compareTimes puts what has no time before the rest.
func compareTimes(a, b *time.Time) int {
	return cmp.Or(a, &time.Time{}).Compare(*cmp.Or(b, &time.Time{}))
}

// sorted returns the first of some tasks in an order, at most limit unless that is zero.
func sorted(tasks []listed, order func(a, b listed) int, reverse bool, limit int) []listed {
	slices.SortStableFunc(tasks, order)
	if reverse {
		slices.Reverse(tasks)
	}
	if limit > 0 {
		tasks = tasks[:min(len(tasks), limit)]
	}
	return tasks
}

var taskHeading = []string{"ID", "TYPE", "STATUS", "NODE", "AGE", "CLAIMED", "ERRORS", "BLOCKED BY"}

// taskTable has a column for the tags only where they were asked for, and one for restarts
// where there are some.
func taskTable(tasks []listed, tagged bool, now time.Time) table {
	t := table{heading: taskHeading, rows: rowsOf(tasks, func(t listed) []string { return taskRow(t.TaskInfo, now) })}
	if slices.ContainsFunc(tasks, func(t listed) bool { return restartCount(t) > 0 }) {
		t.heading = append(slices.Clip(t.heading), "RESTARTS")
		for i := range t.rows {
			t.rows[i] = append(t.rows[i], strconv.Itoa(restartCount(tasks[i])))
		}
	}
	if tagged {
		t.heading = append(slices.Clip(t.heading), "TAGS")
		for i := range t.rows {
			t.rows[i] = append(t.rows[i], view.OrDash(view.Tags(tasks[i].Tags)))
		}
	}
	if len(tasks) > 0 && tasks[0].Interruptions != nil {
		t.heading = append(slices.Clip(t.heading), "INTERRUPTED")
		for i := range t.rows {
			t.rows[i] = append(t.rows[i], strconv.Itoa(*tasks[i].Interruptions))
		}
	}
	return t
}

func taskRow(t windlass.TaskInfo, now time.Time) []string {
	return []string{
		t.ID, view.OrDash(t.Type), string(t.Status), view.OrDash(t.Node), view.Age(t.SubmittedAt, now), view.Age(t.ClaimedAt, now),
		view.Errors(t), view.OrDash(t.WaitsFor()),
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

func (a *app) watchTasks(ctx context.Context, b broker.Broker, c *windlass.Client, filter windlass.Filter) error {
	_ = a.warnSilent(ctx, b, nil)
	lines := lineWriter{app: a, heading: taskHeading, widths: []int{24, 8, 10, 16, 6, 8, 7, 0}}
	return watch(lines, c.WatchTasks(ctx, filter), func(change windlass.TaskChange) (any, []string) {
		if change.Gone {
			return map[string]any{"id": change.Task.ID, "gone": true}, []string{change.Task.ID, "", "gone"}
		}
		return change.Task, taskRow(change.Task, time.Now())
	})
}
