package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/internal/view"
)

func (a *app) taskFailuresCommand() *cobra.Command {
	var filter windlass.Filter
	var search searchFlags
	cmd := &cobra.Command{
		Use:   "failures",
		Short: "Show what an error has stopped, grouped by type and error",
		Long: `Show the tasks that an error has stopped, grouped by their type and their last error,
the largest group first: those that have failed, those that sleep until they are tried
again, and those in fault until somebody tells them to run. Errors whose first lines
differ only in words with digits, such as addresses, IDs and times, are one group, unless
it is an exit code or a status.`,
		Example: `  windlass task failures
  windlass task failures --type import -o json
  windlass task retry --type import --error 'connection refused' --dry-run`,
		Args: noArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := search.read(cmd, &filter); err != nil {
			return err
		}
		return a.withClient(cmd.Context(), func(c *windlass.Client) error {
			groups, err := inspect.New(c).Failures(cmd.Context(), filter)
			if err != nil {
				return err
			}
			a.warnUnused(cmd.Context(), c, len(groups))
			return a.print(groups, func() table { return failuresTable(groups, time.Now()) })
		})
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&filter.Types, "type", nil, "only these types")
	search.register(cmd, &filter, "only tasks")
	a.completeNames(cmd)
	return a.outputFlag(cmd)
}

// errorShown is how many bytes of an error a table shows.
const errorShown = 80

func failuresTable(groups []inspect.FailureGroup, now time.Time) table {
	return table{heading: []string{"TASKS", "STATUS", "TYPE", "FIRST", "LAST", "ERROR", "IDS"}, rows: rowsOf(groups, func(g inspect.FailureGroup) []string {
		ids := strings.Join(g.IDs[:min(len(g.IDs), 3)], ",")
		if g.Tasks > 3 {
			ids += ",…"
		}
		return []string{
			strconv.Itoa(g.Tasks), countsText(g.Statuses), view.OrDash(g.Type), view.Age(g.FirstAt, now), view.Age(g.LastAt, now), view.OrDash(shorten.Line(g.Error, errorShown)), ids,
		}
	})}
}
