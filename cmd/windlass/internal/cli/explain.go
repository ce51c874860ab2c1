package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
)

func (a *app) taskExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "explain ID",
		Short: "Say why a task does not run, or why it runs where it does",
		Long: `Say why a task does not run: what it waits for, until when it sleeps or backs off,
where it is being moved, and for each node the rule that keeps it from taking the
task. Or why it runs where it does: what its node recorded when it claimed it.`,
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeTasks,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(c *windlass.Client) error {
				e, err := c.Explain(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.print(e, func() table { return explanationTable(e) })
			})
		},
	}
	return a.outputFlag(cmd)
}

func explanationTable(e windlass.Explanation) table {
	t := table{rows: [][]string{{"id", e.ID}, {"status", string(e.Status)}, {"why", e.Why}}}
	add := func(name, value string) {
		if value != "" {
			t.rows = append(t.rows, []string{name, value})
		}
	}
	add("node", e.Node)
	if e.ClaimedAt != nil {
		add("claimed", ago(e.ClaimedAt, time.Now()))
	}
	add("blocked by", strings.Join(e.BlockedBy, ", "))
	if e.Errors > 0 {
		add("errors", strconv.Itoa(e.Errors))
		add("last error", e.LastError)
	}
	for _, n := range e.Nodes {
		verdict := "cannot take it: "
		if n.Takes {
			verdict = "can take it: "
		}
		if n.Node == e.Node && e.Status == windlass.StatusRunning {
			verdict = ""
		}
		t.rows = append(t.rows, []string{"node " + n.Node, verdict + n.Why})
	}
	return t
}
