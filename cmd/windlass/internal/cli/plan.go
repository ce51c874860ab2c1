package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/view"
)

// exitChanges is the exit code of a plan that moves something.
const exitChanges = 10

var errChanges = errors.New("the plan moves tasks")

func (a *app) planCommand() *cobra.Command {
	var joins, sets, leaves []string
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what would move if nodes joined, left or changed",
		Long: `Show which tasks would move, and how even it would be, if nodes joined, left, or
had another weight, capacity, zone or label, and which groups are not spread over zones
and nodes. Nothing is changed. Without a flag it shows what would move with the present
nodes.

Exit codes: 0 if nothing would move, 10 if something would.`,
		Example: `  windlass plan --join n4
  windlass plan --leave n1 --join n5:weight=2,zone=east,label.disk=ssd
  windlass plan --set n2:capacity=500`,
		Args: noArgs,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, _ []string) error {
			report, err := inspect.New(c).Plan(ctx, view.NodeEdits{Joins: joins, Leaves: leaves, Sets: sets}.Apply)
			if err != nil {
				return planFlag(err)
			}
			if err := a.print(report, func() table { return planTable(report) }); err != nil {
				return err
			}
			if len(report.Moves) > 0 {
				return errChanges
			}
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&joins, "join", nil, "node that joins: NAME, or NAME:weight=N,capacity=N,zone=Z,label.KEY=VALUE; repeatable")
	flags.StringArrayVar(&leaves, "leave", nil, "node that leaves; repeatable")
	flags.StringArrayVar(&sets, "set", nil, "node that changes: NAME:weight=N,capacity=N,zone=Z,label.KEY=VALUE,frozen=BOOL; repeatable")
	return a.outputFlag(cmd)
}

// planFlag names the flag in an error of an edit.
func planFlag(err error) error {
	if input, ok := errors.AsType[*windlass.BadInputError](err); ok && (input.Field == "join" || input.Field == "set") {
		return usagef("--%w", err)
	}
	return err
}

func planTable(r inspect.Plan) table {
	gives, takes := map[string]int{}, map[string]int{}
	for _, m := range r.Moves {
		gives[m.From] += m.Tasks
		takes[m.To] += m.Tasks
	}
	return table{
		heading: []string{"NODE", "BEFORE", "AFTER", "CHANGE", "GIVES", "TAKES"},
		footer: fmt.Sprintf("%d task(s) would move, %d would wait; imbalance %.1f %% before, %.1f %% after",
			r.Moved, r.Waiting, 100*r.ImbalanceBefore, 100*r.ImbalanceAfter) + unspread("before", r.UnspreadBefore) + unspread("after", r.UnspreadAfter),
		rows: rowsOf(r.Nodes, func(n inspect.PlannedNode) []string {
			change := n.Change
			if d := n.After - n.Before; change == "" && d != 0 {
				change = fmt.Sprintf("%+d", d)
			}
			return []string{
				n.Name, strconv.Itoa(n.Before), strconv.Itoa(n.After), view.OrDash(change), strconv.Itoa(gives[n.Name]), strconv.Itoa(takes[n.Name]),
			}
		}),
	}
}

// unspreadShown is how many groups a plan names.
const unspreadShown = 5

// unspread names the groups that are not spread, empty for none.
func unspread(when string, groups []inspect.Spread) string {
	if len(groups) == 0 {
		return ""
	}
	text := fmt.Sprintf("\n%d group(s) not spread %s: ", len(groups), when)
	for i, g := range groups[:min(len(groups), unspreadShown)] {
		if i > 0 {
			text += "; "
		}
		text += view.GroupSpread(g)
	}
	if more := len(groups) - unspreadShown; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
