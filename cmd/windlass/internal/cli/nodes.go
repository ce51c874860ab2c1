package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
)

func (a *app) nodeListCommand() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the nodes that are there",
		Args:  noArgs,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, _ []string) error {
			if watch {
				return a.watchNodes(ctx, c)
			}
			nodes, err := c.Nodes(ctx)
			if err != nil {
				return err
			}
			return a.print(nodes, func() table { return nodeTable(nodes, time.Now()) })
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with every change")
	return a.outputFlag(cmd)
}

var nodeHeading = []string{"NAME", "TASKS", "FROZEN", "DRAINING", "ZONE", "HOST", "AGE", "SESSION TTL", "VERSION"}

func nodeTable(nodes []windlass.NodeStatus, now time.Time) table {
	return table{heading: nodeHeading, rows: rowsOf(nodes, func(n windlass.NodeStatus) []string { return nodeRow(n, now) })}
}

func nodeRow(n windlass.NodeStatus, now time.Time) []string {
	return []string{
		n.Name, strconv.Itoa(n.Tasks), yesNo(n.Frozen), yesNo(n.Draining), view.OrDash(n.Zone), view.OrDash(n.Host),
		view.Age(&n.StartedAt, now), view.OrDash(n.SessionTTL), view.OrDash(n.Version),
	}
}

// watchNodes prints a line for each change.
func (a *app) watchNodes(ctx context.Context, c *windlass.Client) error {
	lines := lineWriter{app: a, heading: nodeHeading, widths: []int{16, 6, 7, 9, 8, 12, 6, 12, 0}}
	for change, err := range c.WatchNodes(ctx) {
		if err != nil {
			fmt.Fprintln(a.err, "windlass:", err)
			continue
		}
		row, value := nodeRow(change.Node, time.Now()), any(change.Node)
		if change.Gone {
			row, value = []string{change.Node.Name, "gone"}, map[string]any{"name": change.Node.Name, "gone": true}
		}
		if err := lines.write(value, row); err != nil {
			return err
		}
	}
	return nil
}

// plainNodeCommand sends a command without parameters to each node named.
func (a *app) plainNodeCommand(use, command, short string) *cobra.Command {
	return &cobra.Command{
		Use:               use + " NODE...",
		Short:             short,
		Args:              minimumArgs("NODE"),
		ValidArgsFunction: a.completeNodes,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, args []string) error {
			return a.sendAll(ctx, c, args, windlass.Command{Command: command})
		}),
	}
}

func (a *app) sendAll(ctx context.Context, c *windlass.Client, nodes []string, command windlass.Command) error {
	var failed error
	for _, node := range nodes {
		if err := c.Send(ctx, node, command); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		fmt.Fprintf(a.err, "sent %s to %s\n", command.Command, view.Printable(node))
	}
	return failed
}

func (a *app) drainCommand() *cobra.Command {
	var perSecond int
	var within time.Duration
	var wait bool
	cmd := &cobra.Command{
		Use:               "drain NODE...",
		Short:             "Make nodes give everything back, at a pace, and take nothing new; unfreeze ends it",
		Args:              minimumArgs("NODE"),
		ValidArgsFunction: a.completeNodes,
		RunE: func(cmd *cobra.Command, args []string) error {
			command := windlass.Command{Command: windlass.CommandDrain}
			switch {
			case cmd.Flags().Changed("per-second") && within != 0:
				return usagef("--per-second and --within exclude each other")
			case within != 0:
				command.Parameters = json.RawMessage(fmt.Sprintf(`{"within":%q}`, within))
			case cmd.Flags().Changed("per-second"):
				command.Parameters = json.RawMessage(fmt.Sprintf(`{"per_second":%d}`, perSecond))
			}
			return a.withClient(cmd.Context(), func(c *windlass.Client) error {
				if err := a.sendAll(cmd.Context(), c, args, command); err != nil || !wait {
					return err
				}
				return a.waitDrained(cmd.Context(), c, args)
			})
		},
	}
	cmd.Flags().IntVar(&perSecond, "per-second", 200, "how many tasks to give back in a second")
	cmd.Flags().DurationVar(&within, "within", 0, "time in which everything is to be given back, instead of a pace")
	cmd.Flags().BoolVar(&wait, "wait", false, "return when the nodes hold nothing any more")
	return cmd
}

// waitDrained returns when none of the nodes holds a task any more, or is there.
func (a *app) waitDrained(ctx context.Context, c *windlass.Client, names []string) error {
	poll := time.NewTicker(250 * time.Millisecond)
	defer poll.Stop()
	var bar *progress
	defer func() { bar.end() }()
	for most := -1; ; {
		nodes, err := c.Nodes(ctx)
		if err != nil {
			return err
		}
		left, tasks := 0, 0
		for _, n := range nodes {
			if slices.Contains(names, n.Name) && (n.Tasks > 0 || !n.Draining) {
				left, tasks = left+1, tasks+n.Tasks
			}
		}
		if left == 0 {
			return nil
		}
		if most < 0 {
			most = tasks
			bar = a.newProgress("draining", most)
		}
		bar.set(most - tasks)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
}

func (a *app) stopTaskCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop-task NODE TASK",
		Short: "Make a node give back one task that it runs",
		Args:  exactArgs("NODE", "TASK"),
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, args []string) error {
			parameters, err := json.Marshal(map[string]string{"task": args[1]})
			if err != nil {
				return usageError{err}
			}
			return a.sendAll(ctx, c, args[:1], windlass.Command{Command: windlass.CommandStopTask, Parameters: parameters})
		}),
	}
}

// completeNodes offers the names of nodes to the shell.
func (a *app) completeNodes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return complete(cmd, func(ctx context.Context, offer func(string)) error {
		return a.withClient(ctx, func(c *windlass.Client) error {
			nodes, err := c.Nodes(ctx)
			for _, n := range nodes {
				offer(n.Name)
			}
			return err
		})
	})
}
