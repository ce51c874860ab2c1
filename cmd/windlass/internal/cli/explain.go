package cli

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/shorten"
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
			e, err := inspect.New(c).Explain(ctx, args[0])
			if err != nil {
				return err
			}
			return a.print(e, func() table { return explanationTable(e) })
		}),
	}
	return a.outputFlag(cmd)
}

func explanationTable(e inspect.Explanation) table {
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
	var verdicts []string
	var nodes [][]string // of each verdict: a fleet has many of a kind
	for _, n := range e.Nodes {
		verdict := view.Verdict(e, n)
		if i := slices.Index(verdicts, verdict); i >= 0 {
			nodes[i] = append(nodes[i], n.Node)
			continue
		}
		verdicts, nodes = append(verdicts, verdict), append(nodes, []string{n.Node})
	}
	for i, verdict := range verdicts {
		of := "node "
		if len(nodes[i]) > 1 {
			of = "nodes "
		}
		t.add(of+shorten.List(nodes[i]), verdict)
	}
	return t
}
