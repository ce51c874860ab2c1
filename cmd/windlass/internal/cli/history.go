package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/statemachine"
)

func (a *app) taskHistoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history ID",
		Short: "Show what happened to a task",
		Long: fmt.Sprintf(`Show what happened to a task: who claimed it and why, how each claim ended, its
states and the commands to it, the latest %d entries. An interruption is the end of
a claim that neither the task nor a command wanted: its node died, was drained or
lost its session, or the task was moved.

Nodes write it down a moment later.`, statemachine.HistoryMax),
		Example: `  windlass task history nightly
  windlass task history nightly -o json | jq .interruptions`,
		Args:              exactArgs("ID"),
		ValidArgsFunction: a.completeTasks,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(c *windlass.Client) error {
				h, err := c.History(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if h.Entries == nil {
					h.Entries = []statemachine.HistoryEntry{}
				}
				return a.print(h, func() table { return historyTable(h) })
			})
		},
	}
	return a.outputFlag(cmd)
}

func historyTable(h statemachine.History) table {
	t := table{
		heading: []string{"AT", "EVENT", "NODE", "TOKEN", "DETAIL"},
		footer:  fmt.Sprintf("%d claim(s), %d interruption(s)", h.Claims, h.Interruptions),
	}
	for _, e := range h.Entries {
		event, token := string(e.Event), ""
		if e.Interruption {
			event += " (interruption)"
		}
		if e.Token != 0 {
			token = strconv.FormatInt(e.Token, 10)
		}
		t.rows = append(t.rows, []string{e.At.Format(time.RFC3339), event, view.OrDash(e.Node), view.OrDash(token), view.OrDash(e.Detail)})
	}
	return t
}
