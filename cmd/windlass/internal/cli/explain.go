package cli

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
)

func (a *app) taskExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Explain why a task does not run, or why it runs on its node",
		Long: `Explain why a task does not run: the tasks it waits for, how long it sleeps or backs
off, the node it is being moved to, and for each node the rule that keeps the node from
claiming it. For a running task: the reason that its node recorded with the claim.`,
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeTasks,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, args []string) error {
			e, err := c.Explain(ctx, args[0])
			if err != nil {
				return err
			}
			return a.print(e, func() table { return explanationTable(e) })
		}),
	}
	return a.outputFlag(cmd)
}

func explanationTable(e windlass.Explanation) table {
	t := table{rows: [][]string{{"id", e.ID}, {"status", string(e.Status)}, {"why", e.Why}}}
	t.add("node", e.Node)
	if e.ClaimedAt != nil {
		t.add("claimed", view.Ago(e.ClaimedAt, time.Now()))
	}
	t.add("blocked by", e.WaitsFor())
	if e.Errors > 0 {
		t.add("errors", strconv.Itoa(e.Errors))
		t.add("last error", e.LastError)
	}
	for _, n := range e.Nodes {
		t.add("node "+n.Node, view.Verdict(e, n))
	}
	return t
}
