package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/tree"
)

func (a *app) treeCommand() *cobra.Command {
	cmd := group("tree", "Queue jobs in a tree, look at them, and take them",
		a.treeInitCommand(), a.treeQueueCommand(), a.treeShowCommand(),
		a.treeListCommand("pending", "List jobs that nobody holds, blocked ones included", (*tree.Tree).Pending),
		a.treeListCommand("working", "List jobs that somebody holds", (*tree.Tree).Working),
		a.treeListCommand("completed", "List jobs that are done", (*tree.Tree).Completed),
		a.treeFindCommand(), a.treeGetCommand(), a.treeDequeueCommand(),
		a.treeCompleteCommand(), a.treeFailCommand(), a.treeReleaseCommand(), a.treeClearCommand())
	cmd.Long = `A job is a task whose place in a tree says what it waits for: it is blocked until
all jobs above it are done. It is called NAME_TYPE below the job above, so that a
path is like requestFile_alpha/downloadFile_beta; that is also spelled as the ID of
its task, requestFile_alpha|downloadFile_beta, and "windlass task" works on it.

Nodes that run the type run a job as they run any task, and "tree dequeue" takes
one, both at the same time if need be.`
	cmd.Example = `  windlass tree queue request --type exec --data '{"command":["curl","-O","http://…"]}'
  windlass tree queue report --type pdf --under-type exec --name-template '{{.Parent}}-{{.Child}}'
  windlass tree show --watch
  windlass tree dequeue pdf -- ./make-report.sh`
	return cmd
}

func (a *app) withTree(ctx context.Context, f func(*tree.Tree, *windlass.Client) error) error {
	return a.withBroker(ctx, func(b broker.Broker) error {
		client, err := windlass.NewClient(b, a.namespace)
		if err != nil {
			return err
		}
		jobs, err := tree.New(b, a.namespace)
		if err != nil {
			return err
		}
		return f(jobs, client)
	})
}

// jobID returns the ID of a job, by its path in either spelling, or of another task.
func jobID(text string) (string, error) {
	path, err := tree.ParsePath(text)
	if err == nil {
		return path.ID(), nil
	}
	if keys.CheckTaskID(text) == nil {
		return text, nil // a task that is no job can be dequeued, too
	}
	return "", err
}

func (a *app) treeInitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init",
		Short: "Make the namespace, if there is none",
		Long: `Make the namespace, if there is none; otherwise nothing is changed. It is not
needed before the first job is queued.`,
		Example: `  windlass tree init --namespace /imports`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withTree(cmd.Context(), func(t *tree.Tree, _ *windlass.Client) error {
				if err := t.Init(cmd.Context()); err != nil {
					return err
				}
				fmt.Fprintf(a.err, "the namespace %s is there\n", view.Printable(a.namespace))
				return nil
			})
		},
	}
}

func (a *app) treeClearCommand() *cobra.Command {
	var c consent
	cmd := &cobra.Command{
		Use:   "clear",
		Short: "Remove all jobs of the tree, with all that is known of them",
		Long: `Remove all jobs of the tree with their results and histories: those that wait,
those that are worked on, which are stopped, and those that have ended. Other tasks
of the namespace stay.`,
		Example: `  windlass tree clear --dry-run
  windlass tree clear --yes`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.check(a); err != nil {
				return err
			}
			return a.withTree(cmd.Context(), func(t *tree.Tree, _ *windlass.Client) error { return a.clear(cmd.Context(), t, c) })
		},
	}
	c.register(cmd)
	return a.outputFlag(cmd)
}

func (a *app) clear(ctx context.Context, t *tree.Tree, c consent) error {
	paths, err := t.Clear(ctx, true)
	if err != nil {
		return err
	}
	if c.dryRun || len(paths) == 0 {
		return a.printCleared(paths, c.dryRun)
	}
	fmt.Fprintf(a.err, "%d job(s) to be removed\n", len(paths))
	if err := c.ask(ctx, a, "Remove them?"); err != nil {
		return err
	}
	bar := a.newProgress("removing", 0)
	paths, err = t.Clear(ctx, false)
	bar.end()
	return errors.Join(a.printCleared(paths, false), err)
}

func (a *app) printCleared(paths []tree.Path, dryRun bool) error {
	cleared := view.ClearedOf(paths, dryRun)
	return a.print(cleared, func() table {
		if dryRun {
			return previewTable("would clear", "job", cleared.Paths)
		}
		return table{rows: [][]string{{"cleared", strconv.Itoa(len(paths)) + " job(s)"}}}
	})
}

func (a *app) treeListCommand(use, short string, list func(*tree.Tree, context.Context) ([]tree.JobInfo, error)) *cobra.Command {
	var types []string
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Example: fmt.Sprintf(`  windlass tree %s
  windlass tree %s --type alpha -o json`, use, use),
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withTree(cmd.Context(), func(t *tree.Tree, _ *windlass.Client) error {
				jobs, err := list(t, cmd.Context())
				if err != nil {
					return err
				}
				return a.printJobs(slices.DeleteFunc(jobs, func(j tree.JobInfo) bool {
					return len(types) > 0 && !slices.Contains(types, j.Type)
				}))
			})
		},
	}
	cmd.Flags().StringSliceVar(&types, "type", nil, "only these types")
	return a.outputFlag(cmd)
}

func (a *app) treeFindCommand() *cobra.Command {
	var p tree.Pattern
	cmd := &cobra.Command{
		Use:   "find --name EXPRESSION --type EXPRESSION",
		Short: "List the jobs whose own name and type match regular expressions",
		Long: `List the jobs whose own name and type match regular expressions, which have to
match the whole of it. It is what "tree queue --under-name --under-type" goes by.`,
		Example: `  windlass tree find --name 'request.*'
  windlass tree find --name '.*File' --type 'alpha|beta' -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("name") && !cmd.Flags().Changed("type") {
				return usagef("%s needs --name or --type", cmd.CommandPath())
			}
			return a.withTree(cmd.Context(), func(t *tree.Tree, _ *windlass.Client) error {
				jobs, err := t.Find(cmd.Context(), p)
				if err != nil {
					return err
				}
				return a.printJobs(jobs)
			})
		},
	}
	cmd.Flags().StringVar(&p.Name, "name", "", "regular expression for the name")
	cmd.Flags().StringVar(&p.Type, "type", "", "regular expression for the type")
	return a.outputFlag(cmd)
}

func (a *app) printJobs(jobs []tree.JobInfo) error {
	jobs = append([]tree.JobInfo{}, jobs...) // [] in JSON for none
	return a.print(jobs, func() table {
		now := time.Now()
		return table{heading: []string{"PATH", "STATUS", "NODE", "AGE", "CLAIMED", "ERRORS", "BLOCKED BY"}, rows: rowsOf(jobs, func(j tree.JobInfo) []string {
			return []string{
				string(j.Path), string(j.Status), view.OrDash(j.Node), view.Age(j.QueuedAt, now), view.Age(j.ClaimedAt, now),
				strconv.Itoa(len(j.Errors)), view.OrDash(j.WaitsFor()),
			}
		})}
	})
}

func (a *app) treeGetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "get PATH",
		Short:             "Show everything about one job, its result included",
		Example:           `  windlass tree get requestFile_alpha/downloadFile_beta -o json`,
		Args:              exactArgs("PATH"),
		ValidArgsFunction: a.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := tree.ParsePath(args[0])
			if err != nil {
				return err
			}
			return a.withTree(cmd.Context(), func(t *tree.Tree, c *windlass.Client) error {
				job, err := t.Get(cmd.Context(), path)
				if err != nil {
					return err
				}
				task, err := c.Task(cmd.Context(), path.ID())
				if err != nil {
					return err
				}
				// Progress that cannot be read hides nothing else.
				progress, err := c.Progress(cmd.Context(), path.ID())
				full := view.Job{JobInfo: job, Spec: task.Spec, State: task.State, Result: task.Result, Progress: progress}
				return errors.Join(a.print(full, func() table { return jobTable(full) }), err)
			})
		},
	}
	return a.outputFlag(cmd)
}

func jobTable(j view.Job) table {
	now := time.Now()
	t := table{rows: [][]string{
		{"Path", string(j.Path)}, {"ID", j.ID}, {"Name", j.Name}, {"Type", j.Type}, {"Parent", view.OrDash(string(j.Parent))},
		{"Status", string(j.Status)}, {"Node", view.OrDash(j.Node)}, {"Token", strconv.FormatInt(j.Token, 10)},
		{"Priority", strconv.Itoa(j.Priority)}, {"Queued", view.Ago(j.QueuedAt, now)}, {"Claimed", view.Ago(j.ClaimedAt, now)},
		{"Finished", view.Ago(j.FinishedAt, now)},
	}}
	t.addTime("Sleeps until", j.Until)
	t.add("Needs", shorten.List(j.Needs))
	t.add("Blocked by", j.WaitsFor())
	t.add("Reason", j.Reason)
	t.add("Data", string(j.Data))
	t.add("Progress", string(j.Progress))
	t.add("Result", string(j.Result))
	t.addErrors(j.Errors)
	return t
}

func (a *app) completePaths(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeJobs(cmd, args, prefix, func(j tree.JobInfo) string { return string(j.Path) })
}

// completeWorking offers the paths of jobs that somebody holds.
func (a *app) completeWorking(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeJobs(cmd, args, prefix, func(j tree.JobInfo) string {
		if !j.Working() {
			return ""
		}
		return string(j.Path)
	})
}

// completePending offers the types of jobs that wait, and then a command.
func (a *app) completePending(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return a.completeJobs(cmd, args, prefix, func(j tree.JobInfo) string {
		if !j.Pending() {
			return ""
		}
		return j.Type
	})
}

// completeJobs offers words that jobs have, each once, for the first argument.
func (a *app) completeJobs(cmd *cobra.Command, args []string, prefix string, word func(tree.JobInfo) string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	words, directive := complete(cmd, func(ctx context.Context, offer func(string)) error {
		return a.withTree(ctx, func(t *tree.Tree, _ *windlass.Client) error {
			forest, err := t.Load(ctx)
			if err != nil {
				return err
			}
			for _, j := range forest.Jobs() {
				if w := word(j); w != "" && strings.HasPrefix(w, prefix) {
					offer(w)
				}
			}
			return nil
		})
	})
	slices.Sort(words)
	return slices.Compact(words), directive
}
