package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/tree"
)

func (a *app) taskCommand() *cobra.Command {
	cmd := group("task", "Submit, direct, list and look at tasks",
		a.submitCommand(), a.taskUpdateCommand(), a.taskApplyCommand(), a.taskListCommand(), a.taskFailuresCommand(), a.taskGetCommand(), a.taskExplainCommand(), a.taskHistoryCommand(), a.taskLogsCommand(), a.taskUsageCommand(),
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

// statusOf is the status of a task, with the reason if its type is paused.
func statusOf(t view.Task) string {
	if t.Status == windlass.StatusPaused && t.State != nil && t.State.TypePaused {
		return "paused, as its type is"
	}
	if !t.SilentSince.IsZero() {
		return string(t.Status) + ", by the last word of " + view.Printable(t.Node) + ", " + view.NotRenewed(t.SilentSince, time.Now())
	}
	return string(t.Status)
}

// addSpec adds the settings of a task that it has.
func (t *table) addSpec(s *windlass.Spec) {
	if s == nil {
		return
	}
	t.add("Submitted or changed by", s.By)
	if s.Weight > 1 {
		t.add("Weight", strconv.Itoa(s.Weight))
	}
	t.add("Requires", pairs(s.Require))
	t.add("Prefers", pairs(s.Prefer))
	t.add("Only on", s.Node)
	t.add("Group", s.Group)
	t.add("Needs", shorten.List(s.Needs))
	if s.Timeout > 0 {
		t.add("Timeout", time.Duration(s.Timeout).String())
	}
	if s.Retry != nil {
		encoded, _ := json.Marshal(s.Retry) // numbers can always be encoded
		t.add("Retry", string(encoded))
	}
	if !s.NotBefore.IsZero() {
		t.add("Not before", s.NotBefore.Format(time.RFC3339))
	}
	t.add("On failure", string(s.OnFailure))
}

// leftBehind says what the last run of a command has left behind, empty for nothing.
func leftBehind(t view.Task) string {
	var o exectask.Outcome
	if t.Type != exectask.Type || json.Unmarshal(t.Result, &o) != nil {
		return ""
	}
	return outlivedBy(o)
}

func detailTable(t view.Task) table {
	now := time.Now()
	detail := table{rows: [][]string{
		{"ID", t.ID}, {"Type", view.OrDash(t.Type)}, {"Status", statusOf(t)}, {"Node", view.OrDash(t.Node)},
		{"Token", strconv.FormatInt(t.Token, 10)}, {"Priority", strconv.Itoa(t.Priority)},
		{"Submitted", view.Ago(t.SubmittedAt, now)}, {"Claimed", view.Ago(t.ClaimedAt, now)},
	}}
	detail.addSpec(t.Spec)
	detail.addTime("Ended", t.FinishedAt)
	detail.addTime("Sleeps until", t.Until)
	detail.add("Restarts", view.Restarts(t.Restarts, now))
	if t.Command != nil {
		waits := string(t.Command.Message)
		if t.Command.Until != nil {
			waits += " until " + t.Command.Until.Format(time.RFC3339)
		}
		detail.add("Command", waits+", not carried out yet")
	}
	if t.FailuresMax > 0 {
		detail.add("Failures", fmt.Sprintf("%d; %d end it", t.Failures, t.FailuresMax))
	}
	detail.add("Blocked by", t.WaitsFor())
	detail.add("Tags", view.Tags(t.Tags))
	detail.add("Props", view.JSON(t.Props))
	detail.add("Progress", view.JSON(t.Progress))
	detail.add("Result", view.JSON(t.Result))
	detail.add("Left behind", leftBehind(t))
	detail.addErrors(t.Errors)
	return detail
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
