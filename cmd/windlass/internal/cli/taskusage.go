package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/internal/commands"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/view"
)

// usageMax limits the tasks that are asked: with each report comes the end of the output,
// up to 200 kB in the broker.
const usageMax = 100

// taskUsage is what the command of a task uses. Its JSON is stable.
type taskUsage struct {
	ID   string `json:"id"`
	Node string `json:"node"`
	// At is when it was measured, by the clock of the node.
	At time.Time `json:"at"`
	// Usage is null if no command ran just then, or its node cannot tell.
	Usage *exectask.Usage `json:"usage"`
}

// used is the usage, zero if there is none.
func (u taskUsage) used() exectask.Usage { return *cmp.Or(u.Usage, &exectask.Usage{}) }

var usageOrders = map[string]func(a, b taskUsage) int{
	"cpu":    func(a, b taskUsage) int { return cmp.Compare(b.used().CPUShare, a.used().CPUShare) },
	"memory": func(a, b taskUsage) int { return cmp.Compare(b.used().MemoryBytes, a.used().MemoryBytes) },
	"id":     func(a, b taskUsage) int { return strings.Compare(a.ID, b.ID) },
}

func (a *app) taskUsageCommand() *cobra.Command {
	running := []windlass.Status{windlass.StatusRunning}
	var s selection
	var by string
	cmd := &cobra.Command{
		Use:   "usage [ID...]",
		Short: "Show the CPU time and memory that OS commands of tasks use",
		Long: fmt.Sprintf(`Show what the commands of exec tasks use: the CPU time in the last half second, where
100%% is one core, the CPU time since the command was started, the resident memory of all
its processes, summed, and how many these are. Their nodes are asked, and have %v to
answer. Without IDs and flags, all running exec tasks are asked, at most %d.

A dash means that no command ran just then, as between two runs, or that the node is not
on Linux.`, reportWithin, usageMax),
		Example: `  windlass task usage nightly
  windlass task usage --node n1 --sort cpu`,
		ValidArgsFunction: a.completeLive,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch err := s.check(cmd, running); {
			case err != nil:
				return err
			case s.given(cmd) && len(args) > 0:
				return usagef("the ID %q and flags that select tasks exclude each other", args[0])
			case usageOrders[by] == nil:
				return usagef("--sort %q: must be one of %q", by, slices.Sorted(maps.Keys(usageOrders)))
			}
			for _, id := range args {
				if err := keys.CheckTaskID(id); err != nil {
					return usageError{err}
				}
			}
			return a.withClient(cmd.Context(), func(c *windlass.Client) error {
				ids, err := a.idsToAsk(cmd.Context(), c, s, args)
				if err != nil {
					return err
				}
				return a.showUsage(cmd.Context(), c, ids, by)
			})
		},
	}
	s.register(cmd, running)
	s.filter.Types = []string{exectask.Type}
	cmd.Flags().StringVar(&by, "sort", "memory", "sort by "+names(slices.Sorted(maps.Keys(usageOrders)), ", "))
	completeFlag(cmd, "sort", slices.Sorted(maps.Keys(usageOrders)))
	a.completeNames(cmd)
	return a.outputFlag(cmd)
}

// idsToAsk are the IDs that were given, each once, or those of the selected tasks.
func (a *app) idsToAsk(ctx context.Context, c *windlass.Client, s selection, given []string) ([]string, error) {
	ids := slices.Compact(slices.Sorted(slices.Values(given)))
	if len(given) == 0 {
		s.filter.Statuses = []windlass.Status{windlass.StatusRunning}
		tasks, err := c.Tasks(ctx, s.filter)
		if err != nil {
			return nil, err
		}
		a.warnUnused(ctx, c, len(tasks))
		for _, t := range tasks {
			ids = append(ids, t.ID)
		}
	}
	if len(ids) > usageMax {
		return nil, usagef("%d tasks would be asked: at most %d; select fewer, such as by --node or --id-prefix", len(ids), usageMax)
	}
	return ids, nil
}

// showUsage asks for the usage of tasks and prints it. Those that do not answer hide no
// other.
func (a *app) showUsage(ctx context.Context, c *windlass.Client, ids []string, by string) error {
	all, errs := make([]taskUsage, len(ids)), make([]error, len(ids))
	var done atomic.Int64
	bar := a.newProgress("asking", len(ids))
	commands.AtOnce(len(ids), func(i int) {
		all[i], errs[i] = askUsage(ctx, c, ids[i])
		bar.set(int(done.Add(1)))
	})
	bar.end()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	answered := []taskUsage{} // [] in JSON for none
	for i, u := range all {
		if errs[i] == nil {
			answered = append(answered, u)
		}
	}
	slices.SortStableFunc(answered, func(a, b taskUsage) int { return cmp.Or(usageOrders[by](a, b), usageOrders["id"](a, b)) })
	err := a.print(answered, func() table {
		return table{heading: []string{"ID", "NODE", "CPU", "CPU TIME", "MEMORY", "PROCESSES"}, rows: rowsOf(answered, usageRow)}
	})
	return errors.Join(append([]error{err}, errs...)...)
}

// askUsage asks for the usage of one task.
func askUsage(ctx context.Context, c *windlass.Client, id string) (taskUsage, error) {
	task, err := c.Task(ctx, id)
	switch {
	case err != nil:
		return taskUsage{}, err
	case task.Type != exectask.Type:
		return taskUsage{}, fmt.Errorf("task %q: is of type %q, and only those of type %q tell what they use: %w", id, task.Type, exectask.Type, windlass.ErrNotFound)
	case task.Status != windlass.StatusRunning:
		return taskUsage{}, fmt.Errorf("task %q: is %s, so it uses nothing: %w", id, task.Status, windlass.ErrNotFound)
	}
	report, err := askReport(ctx, c, task.TaskInfo)
	return taskUsage{ID: id, Node: task.Node, At: report.At, Usage: report.Usage}, err
}

func usageRow(u taskUsage) []string {
	row := []string{u.ID, u.Node, "-", "-", "-", "-"}
	if u.Usage != nil {
		spent := time.Duration(u.Usage.CPUSeconds * float64(time.Second)).Round(10 * time.Millisecond)
		copy(row[2:], []string{fmt.Sprintf("%.0f%%", 100*u.Usage.CPUShare), spent.String(), view.Size(u.Usage.MemoryBytes), strconv.Itoa(u.Usage.Processes)})
	}
	return row
}
