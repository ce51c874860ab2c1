package cli

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/top"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/operate"
)

type topFlags struct {
	top.Config
	once  bool
	limit int
}

func (a *app) topCommand() *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show the cluster live in a terminal, and direct it",
		Long: `Show the cluster live in a terminal: tasks, nodes, elections and the tree of jobs, and
how many tasks are claimed and moved in a second. Tasks can be sorted, filtered,
paused, run, put to sleep, released and killed; nodes frozen and drained; leaders
asked to resign. Each action asks before it does anything. "?" shows the keys.

Without a terminal use --once, which prints what there is now.`,
		Example: `  windlass top
  windlass top --filter import --sort errors
  windlass top --once -o json | jq .counts.running`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkTop(cmd, &f); err != nil {
				return err
			}
			return a.withBroker(cmd.Context(), func(b broker.Broker) error { return a.top(cmd.Context(), b, f) })
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.once, "once", false, "print what there is now, and end")
	flags.DurationVar(&f.Refresh, "refresh", top.RefreshDefault, "time between two frames, 50ms to 1m")
	flags.StringVar((*string)(&f.Column), "sort", string(top.ByID), "what tasks are sorted by: "+names(top.Columns, ", "))
	flags.BoolVar(&f.Reverse, "reverse", false, "sort the other way round")
	flags.StringVar(&f.Filter, "filter", "", "only tasks that have this text in their ID, type, status or node")
	flags.IntVar(&f.limit, "limit", top.TasksDefault, "how many tasks --once prints")
	completeFlag(cmd, "sort", top.Columns)
	return a.outputFlag(cmd)
}

// checkTop checks the command line and the terminal before the broker is asked.
func (a *app) checkTop(cmd *cobra.Command, f *topFlags) error {
	if err := f.Check(); err != nil {
		return usagef("--%w", err)
	}
	flags := cmd.Flags()
	switch {
	case f.limit < 0 || f.limit > top.TasksMax:
		return usagef("--limit %d: must be from 0 to %d", f.limit, top.TasksMax)
	case f.once && flags.Changed("refresh"):
		return usagef("--once and --refresh exclude each other")
	case !f.once && flags.Changed("limit"):
		return usagef("--limit goes with --once")
	case !f.once && flags.Changed("output"):
		return usagef("-o goes with --once")
	case !f.once && (!isTerminal(a.in) || !isTerminal(a.out) || isDumb()):
		return hintedError{usagef("standard input and output must be a terminal, and TERM not dumb"), `"windlass top --once" prints what there is now; -o json is for scripts.`}
	}
	return nil
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *app) top(ctx context.Context, b broker.Broker, f topFlags) error {
	client, err := windlass.NewClient(b, a.namespace)
	if err != nil {
		return err
	}
	c := f.Config
	c.Broker, c.Client, c.Namespace, c.Address = b, client, a.namespace, a.broker.shown()
	c.In, c.Out, c.Environ = a.in, a.out, os.Environ()
	if f.once {
		t, err := top.Once(ctx, c, f.limit)
		if err != nil {
			return err
		}
		return a.print(t, func() table { return topTable(t) })
	}
	// An error of the broker at the start is better said here than on the screen.
	if _, err := operate.New(client).Layout(ctx); err != nil {
		return err
	}
	return top.Run(ctx, c)
}

// shown is the broker's address for people, without what follows a question mark, which
// may be secret.
func (b *brokerFlags) shown() string {
	if b.address == "" {
		return "this user's dev"
	}
	address, _, _ := strings.Cut(b.address, "?")
	return address
}

func topTable(t view.Top) table {
	page := table{rows: [][]string{
		{"namespace", t.Namespace}, {"broker", t.Broker}, {"at", t.At.Format(time.RFC3339)},
		{"tasks", strings.TrimSuffix(fmt.Sprintf("%d: %s", t.Total, countsText(t.Counts)), ": ")},
		{"nodes", strconv.Itoa(len(t.Nodes))}, {"elections", strconv.Itoa(len(t.Elections))}, {"jobs", summary(t.Jobs)},
	}}
	elections := table{heading: electionHeading, rows: rowsOf(t.Elections, electionRow)}
	for _, part := range []table{nodeTable(t.Nodes, nil, t.At), elections, taskTable(listedOf(t.Tasks), false, t.At)} {
		if len(part.rows) > 0 {
			page.rows = append(append(page.rows, []string{""}, part.heading), part.rows...)
		}
	}
	if more := t.Matching - len(t.Tasks); more > 0 {
		page.footer = fmt.Sprintf("%d more task(s); --limit", more)
	}
	return page
}
