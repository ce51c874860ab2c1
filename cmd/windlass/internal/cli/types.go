package cli

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/operate"
)

func (a *app) typeCommand() *cobra.Command {
	return group("type", "List the types of tasks, and pause one as a whole", a.typeListCommand(), a.typePauseCommand(), a.typeResumeCommand())
}

func (a *app) typeListCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the types that tasks have, that nodes run, or that are paused",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.withClientOf(ctx, func(b broker.Broker, c *windlass.Client) error {
				types, err := c.Types(ctx)
				if err != nil {
					return err
				}
				a.warnUnused(ctx, c, len(types))
				return a.warnSilent(ctx, b, a.print(types, func() table { return typeTable(types, time.Now()) }))
			})
		},
	}
	return a.outputFlag(cmd)
}

func typeTable(types []windlass.TypeStatus, now time.Time) table {
	return table{heading: []string{"TYPE", "PAUSED", "TASKS", "NODES", "REASON"}, rows: rowsOf(types, func(t windlass.TypeStatus) []string {
		paused, reason := "-", "-"
		if p := t.Pause; p != nil {
			if paused = view.Age(&p.At, now); p.By != "" {
				paused += " by " + view.Printable(p.By)
			}
			reason = view.OrDash(p.Reason)
		}
		return []string{view.OrDash(t.Type), paused, view.OrDash(heldText(t.Tasks)), strconv.Itoa(len(t.Nodes)), reason}
	})}
}

func (a *app) typePauseCommand() *cobra.Command {
	var reason string
	var wait bool
	cmd := &cobra.Command{
		Use:   "pause TYPE...",
		Short: "Stop the tasks of a type on all nodes, and run no more of it until resume",
		Long: `Stop the tasks of a type on all nodes, as when what they all need is down. Those that
are submitted or wake up later are paused before they run. They stay on their nodes.
"task pause" pauses single tasks, which "type resume" leaves alone.

A task that a script has dequeued stays with it; --wait waits for that as well. The
type '' is that of the tasks without one.`,
		Example: `  windlass type pause import --reason 'its database is moved' --wait
  windlass type resume import`,
		Args:              minimumArgs("TYPE"),
		ValidArgsFunction: a.completeTypes,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, args []string) error {
			known, err := c.Types(ctx)
			if err != nil {
				return err
			}
			err = a.eachName(args, func(name string) (string, error) {
				if !slices.ContainsFunc(known, func(t windlass.TypeStatus) bool { return t.Type == name }) {
					return "paused %s, which no task has and no node names\n", operate.New(c).PauseType(ctx, name, reason)
				}
				return "paused %s\n", operate.New(c).PauseType(ctx, name, reason)
			})
			if err != nil || !wait {
				return err
			}
			return a.waitPaused(ctx, c, args)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever lists the types")
	cmd.Flags().BoolVar(&wait, "wait", false, "return when none of their tasks runs any more")
	return cmd
}

// waitPaused returns when no task of some types runs, or one of them was resumed.
func (a *app) waitPaused(ctx context.Context, c *windlass.Client, names []string) error {
	return a.waitUntilNone(ctx, "pausing", func() (left, tasks int, err error) {
		types, err := c.Types(ctx)
		running, paused := 0, map[string]bool{}
		for _, t := range types {
			if slices.Contains(names, t.Type) && t.Pause != nil {
				running += t.Tasks[windlass.StatusRunning]
				paused[t.Type] = true
			}
		}
		for _, name := range names {
			if err == nil && !paused[name] {
				err = fmt.Errorf("type %q was resumed meanwhile", name)
			}
		}
		return running, running, err
	})
}

func (a *app) typeResumeCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "resume TYPE...",
		Short:             "Run the tasks again that are paused because their type is",
		Args:              minimumArgs("TYPE"),
		ValidArgsFunction: a.completeTypes,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, args []string) error {
			return a.eachName(args, func(name string) (string, error) { return "resumed %s\n", operate.New(c).ResumeType(ctx, name) })
		}),
	}
}

func (a *app) completeTypes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return complete(cmd, func(ctx context.Context, offer func(string)) error {
		return a.withClient(ctx, func(c *windlass.Client) error {
			types, err := c.Types(ctx)
			for _, t := range types {
				offer(t.Type)
			}
			return err
		})
	})
}
