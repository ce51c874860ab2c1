package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

func (a *app) taskHistoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history ID",
		Short: "Show what happened to a task",
		Long: fmt.Sprintf(`Show what happened to a task: who claimed it and why, how each claim ended, its
states and the commands to it, the latest %d entries. An interruption is the end of
a claim that neither the task nor a command to it wanted: its node died, was drained or
lost its session, or the task was moved, by the fleet or by "node stop-task".

It also tells of a task that was deleted, if a node had ever claimed it. Nodes write these
records with a short delay.`, statemachine.HistoryMax),
		Example: `  windlass task history nightly
  windlass task history nightly -o json | jq .interruptions`,
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeTasks,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, args []string) error {
			h, err := inspect.New(c).History(ctx, args[0])
			if err != nil {
				return err
			}
			h.Entries = append([]statemachine.HistoryEntry{}, h.Entries...) // [] in JSON for none
			return a.print(h, func() table { return historyTable(h) })
		}),
	}
	return a.outputFlag(cmd)
}

func historyTable(h statemachine.History) table {
	return table{
		heading: []string{"AT", "EVENT", "NODE", "TOKEN", "DETAIL"},
		footer:  fmt.Sprintf("%d claim(s), %d interruption(s)", h.Claims, h.Interruptions),
		rows: rowsOf(h.Entries, func(e statemachine.HistoryEntry) []string {
			token := "-"
			if e.Token != 0 {
				token = strconv.FormatInt(e.Token, 10)
			}
			return []string{e.At.Format(time.RFC3339), view.EventName(e), view.OrDash(e.Node), token, view.OrDash(e.Detail)}
		}),
	}
}
