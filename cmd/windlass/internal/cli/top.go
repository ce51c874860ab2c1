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
)

// topFlags say how the cluster is shown.
type topFlags struct {
	top.Config
	sort  string
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
	flags.StringVar(&f.sort, "sort", string(top.ByID), "what tasks are sorted by: "+names(top.Columns, ", "))
	flags.BoolVar(&f.Reverse, "reverse", false, "sort the other way round")
	flags.StringVar(&f.Filter, "filter", "", "only tasks that have this text in their ID, type, status or node")
	flags.IntVar(&f.limit, "limit", top.TasksDefault, "how many tasks --once prints")
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(strings.Fields(names(top.Columns, " ")), cobra.ShellCompDirectiveNoFileComp))
	return a.outputFlag(cmd)
}

// checkTop finds what is wrong with the command line, and with where it is to be
// shown, before the broker is asked.
func (a *app) checkTop(cmd *cobra.Command, f *topFlags) error {
	f.Column = top.Column(f.sort)
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
	case f.once:
		return a.checkOutput()
	}
	if !isTerminal(a.in) || !isTerminal(a.out) || isDumb(os.Getenv("TERM")) {
		return hintedError{usagef("standard input and output must be a terminal, and TERM not dumb"), `"windlass top --once" prints what there is now; -o json is for scripts.`}
	}
	return nil
}

// isTerminal tells whether a stream is one.
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
	// What is wrong with the broker from the start is better said here than there.
	if _, err := client.Layout(ctx); err != nil {
		return err
	}
	return top.Run(ctx, c)
}

// shown is the broker's address for people: what is after a question mark may hold
// what not everybody is to see.
func (b *brokerFlags) shown() string {
	if b.address == "" {
		return "this user's dev"
	}
	address, _, _ := strings.Cut(b.address, "?")
	return address
}

// topTable is a snapshot on one page.
func topTable(t view.Top) table {
	var counts []string
	for _, s := range windlass.Statuses {
		if n := t.Counts[s]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, s))
		}
	}
	rows := [][]string{
		{"namespace", t.Namespace}, {"broker", t.Broker}, {"at", t.At.Format(time.RFC3339)},
		{"tasks", strings.TrimSuffix(fmt.Sprintf("%d: %s", t.Total, strings.Join(counts, ", ")), ": ")},
		{"nodes", strconv.Itoa(len(t.Nodes))}, {"elections", strconv.Itoa(len(t.Elections))}, {"jobs", summary(t.Jobs)},
	}
	list := func(heading []string, of [][]string) {
		if len(of) > 0 {
			rows = append(append(rows, []string{""}, heading), of...)
		}
	}
	var nodes, elections, tasks [][]string
	for _, n := range t.Nodes {
		nodes = append(nodes, nodeRow(n, t.At))
	}
	for _, e := range t.Elections {
		elections = append(elections, electionRow(e))
	}
	for _, info := range t.Tasks {
		tasks = append(tasks, taskRow(info, t.At))
	}
	list(nodeHeading, nodes)
	list(electionHeading, elections)
	list(taskHeading, tasks)
	result := table{rows: rows}
	if more := t.Matching - len(t.Tasks); more > 0 {
		result.footer = fmt.Sprintf("%d more task(s); --limit", more)
	}
	return result
}
