package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/operate"
)

func (a *app) nodeListCommand() *cobra.Command {
	var follow bool
	var labels map[string]string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the nodes that are there or to be back; the table also has cordoned nodes that are away",
		Args:  noArgs,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, _ []string) error {
			switch {
			case follow && len(labels) > 0:
				return usagef("--watch and --label exclude each other")
			case follow:
				return a.watchNodes(ctx, c)
			}
			nodes, err := c.Nodes(ctx)
			cordons, cordonsErr := operate.New(c).Cordons(ctx)
			if err := errors.Join(err, cordonsErr); err != nil {
				return err
			}
			a.warnUnused(ctx, c, len(nodes)+len(cordons))
			if len(labels) > 0 {
				clear(cordons) // the labels of nodes that are away are not known
			}
			nodes = slices.DeleteFunc(nodes, func(n windlass.NodeStatus) bool { return !hasLabels(n, labels) })
			return a.print(nodes, func() table { return nodeTable(nodes, cordons, time.Now()) })
		}),
	}
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "keep running and print every change")
	cmd.Flags().StringToStringVarP(&labels, "label", "l", nil, "only nodes with these labels, such as disk=ssd; zone=NAME also matches the zone")
	a.completeNames(cmd)
	return a.outputFlag(cmd)
}

func hasLabels(n windlass.NodeStatus, labels map[string]string) bool {
	for name, value := range labels {
		has, ok := n.Labels[name]
		if name == "zone" && !ok {
			has, ok = n.Zone, n.Zone != ""
		}
		if !ok || has != value {
			return false
		}
	}
	return true
}

var nodeHeading = []string{"NAME", "STATUS", "TASKS", "ZONE", "HOST", "AGE", "SESSION TTL", "VERSION"}

func nodeTable(nodes []windlass.NodeStatus, cordons map[string]windlass.Suspension, now time.Time) table {
	t := table{heading: nodeHeading, rows: rowsOf(nodes, func(n windlass.NodeStatus) []string { return nodeRow(n, now) })}
	for _, n := range nodes {
		delete(cordons, n.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(cordons)) {
		t.rows = append(t.rows, []string{name, "away," + view.Cordon(cordons[name]), "-", "-", "-", "-", "-", "-"})
	}
	return t
}

func nodeRow(n windlass.NodeStatus, now time.Time) []string {
	return []string{
		n.Name, view.NodeState(n, now), strconv.Itoa(n.Tasks), view.OrDash(n.Zone), view.OrDash(n.Host),
		view.Age(&n.StartedAt, now), view.OrDash(n.SessionTTL), view.OrDash(n.Version),
	}
}

func (a *app) nodeDeathsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deaths",
		Short: "List the nodes that died within the last hour, and who is to blame",
		Long: `List the nodes that vanished without notice within the last hour, the latest first,
and the supervisors of commands that died while their nodes went on (WHAT).

CULPRIT is the task that was found to blame, with how many nodes died while they ran
it; it has failed. SUSPECTS are the tasks that had just been claimed. Without any new
one it may have been each of the CLAIMS: whichever dies with nodes again is found.
"or more" is after the time of a death that was noticed late, as all nodes had died.`,
		Args: noArgs,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, _ []string) error {
			deaths, err := operate.New(c).Deaths(ctx)
			if err != nil {
				return err
			}
			a.warnUnused(ctx, c, len(deaths))
			return a.print(deaths, func() table { return deathTable(deaths, time.Now()) })
		}),
	}
	return a.outputFlag(cmd)
}

// suspectsShown is how many suspects a row has.
const suspectsShown = 3

func deathTable(deaths []events.Death, now time.Time) table {
	return table{heading: []string{"NODE", "WHAT", "AGO", "CLAIMS", "CULPRIT", "SUSPECTS"}, rows: rowsOf(deaths, func(d events.Death) []string {
		culprit, suspects := "-", "-"
		switch {
		case d.Culprit != "":
			culprit = fmt.Sprintf("%s (%d)", view.Printable(d.Culprit), d.Count)
		case d.Recent == 0 && d.Claims > 0:
			suspects = "none new"
		case d.Recent > 0:
			var names []string
			for _, l := range d.Lost[:min(d.Recent, suspectsShown)] {
				names = append(names, view.Printable(l.Task))
			}
			if suspects = strings.Join(names, ", "); d.Recent > suspectsShown {
				suspects += fmt.Sprintf(" and %d more", d.Recent-suspectsShown)
			}
		}
		ago := view.Age(&d.At, now)
		if d.Late {
			ago += " or more"
		}
		return []string{d.Node, view.Printable(d.What()), ago, strconv.Itoa(d.Claims), culprit, suspects}
	})}
}

func (a *app) watchNodes(ctx context.Context, c *windlass.Client) error {
	lines := lineWriter{app: a, heading: nodeHeading, widths: []int{16, 10, 6, 8, 12, 6, 12, 0}}
	return watch(lines, c.WatchNodes(ctx), func(change windlass.NodeChange) (any, []string) {
		if change.Gone {
			return map[string]any{"name": change.Node.Name, "gone": true}, []string{change.Node.Name, "gone"}
		}
		return change.Node, nodeRow(change.Node, time.Now())
	})
}

// plainNodeCommand sends a command without parameters to each node named.
func (a *app) plainNodeCommand(use, command, short string) *cobra.Command {
	return &cobra.Command{
		Use:               use + " NODE...",
		Short:             short,
		Args:              minimumArgs("NODE"),
		ValidArgsFunction: a.completeNodes,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, args []string) error {
			return a.sendAll(ctx, c, args, operate.Command{Command: command})
		}),
	}
}

func (a *app) sendAll(ctx context.Context, c *windlass.Client, nodes []string, command operate.Command) error {
	return a.eachName(nodes, func(node string) (string, error) {
		return "sent " + command.Command + " to %s\n", operate.New(c).Send(ctx, node, command)
	})
}

func (a *app) cordonCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:               "cordon NODE...",
		Short:             "Keep nodes from getting tasks, also after a restart and while they are away, until uncordon",
		Args:              minimumArgs("NODE"),
		ValidArgsFunction: a.completeNodes,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, args []string) error {
			return a.eachName(args, func(node string) (string, error) {
				there, err := operate.New(c).Cordon(ctx, node, reason)
				if !there {
					return "cordoned %s, which is not there now\n", err
				}
				return "cordoned %s\n", err
			})
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever lists the nodes")
	return cmd
}

func (a *app) uncordonCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "uncordon NODE...",
		Short:             "Let nodes get tasks again after cordon or drain",
		Args:              minimumArgs("NODE"),
		ValidArgsFunction: a.completeNodes,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, args []string) error {
			return a.eachName(args, func(node string) (string, error) { return "uncordoned %s\n", operate.New(c).Uncordon(ctx, node) })
		}),
	}
}

// eachName does something to each of some nodes or types, and prints what it did, with the name.
func (a *app) eachName(nodes []string, do func(node string) (did string, err error)) error {
	var failed error
	for _, node := range nodes {
		did, err := do(node)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		fmt.Fprintf(a.err, did, cmp.Or(view.Printable(node), "''"))
	}
	return failed
}

func (a *app) drainCommand() *cobra.Command {
	var perSecond int
	var within time.Duration
	var wait, force bool
	cmd := &cobra.Command{
		Use:   "drain NODE...",
		Short: "Cordon nodes and make them give everything back, at a pace",
		Long: `Cordon nodes and make them give everything back, at a pace, for the other nodes to
take. If no other node can take some of it, because of its type, of what it requires,
or because the others are cordoned, full or too few, nothing is drained, unless --force
says that it may wait. "windlass plan --leave NODE" shows what would move where. The
reason that the nodes are listed with is that of "windlass node cordon --reason", given
before or after.

Exit code: 3 if a node is not there, 4 if something has nowhere to go, or, with --wait,
if a node turns out to be dead.`,
		Example:           `  windlass node drain n1 --within 10m --wait`,
		Args:              minimumArgs("NODE"),
		ValidArgsFunction: a.completeNodes,
		RunE: func(cmd *cobra.Command, args []string) error {
			command := operate.Command{Command: operate.Drain}
			switch {
			case cmd.Flags().Changed("per-second") && within != 0:
				return usagef("--per-second and --within exclude each other")
			case within != 0:
				command.Parameters = json.RawMessage(fmt.Sprintf(`{"within":%q}`, within))
			case cmd.Flags().Changed("per-second"):
				command.Parameters = json.RawMessage(fmt.Sprintf(`{"per_second":%d}`, perSecond))
			}
			return a.withClient(cmd.Context(), func(c *windlass.Client) error {
				if !force {
					if err := checkDrain(cmd.Context(), c, args); err != nil {
						return err
					}
				}
				if err := a.sendAll(cmd.Context(), c, args, command); err != nil || !wait {
					return err
				}
				if err := a.waitDrained(cmd.Context(), c, args); err != nil {
					return err
				}
				return a.eachName(args, func(string) (string, error) { return "%s holds nothing\n", nil })
			})
		},
	}
	cmd.Flags().IntVar(&perSecond, "per-second", 200, "how many tasks to give back in a second")
	cmd.Flags().DurationVar(&within, "within", 0, "time in which everything is to be given back, instead of a pace")
	cmd.Flags().BoolVar(&wait, "wait", false, "return when the nodes hold nothing any more")
	cmd.Flags().BoolVar(&force, "force", false, "drain also what no other node can take, which then waits")
	return cmd
}

// errDead is about a node that carries out no command.
var errDead = errors.New("it is dead or cut off, and gives nothing back")

// errNowhere is about tasks that no node could take.
var errNowhere = errors.New("no other node can take them")

// checkDrain refuses to drain nodes whose tasks have nowhere to go. Nodes that are not there are
// left to the command.
func checkDrain(ctx context.Context, c *windlass.Client, names []string) error {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	report, err := inspect.New(c).Plan(ctx, func(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error) {
		return slices.DeleteFunc(nodes, func(n windlass.NodeInfo) bool { return slices.Contains(names, n.Name) }), nil
	})
	if err != nil {
		return err
	}
	nowhere, all := 0, 0
	for _, m := range report.Moves {
		if slices.Contains(names, m.From) {
			if all += m.Tasks; m.To == "" {
				nowhere += m.Tasks
			}
		}
	}
	if nowhere == 0 {
		return nil
	}
	such, err := whyNowhere(ctx, c, names, report.Displaced)
	if err != nil {
		return err
	}
	return hintedError{
		fmt.Errorf("drain %s: %d of %d task(s) would wait%s: %w", strings.Join(names, ", "), nowhere, all, such, errNowhere),
		`"windlass task explain" says of a task what each node lacks; --force drains all the same.`,
	}
}

// whyNowhere names the first of some tasks that one of the named nodes holds, and why the other nodes
// cannot take it.
func whyNowhere(ctx context.Context, c *windlass.Client, names, tasks []string) (string, error) {
	for _, task := range tasks {
		e, err := inspect.New(c).Explain(ctx, task)
		switch {
		case errors.Is(err, windlass.ErrNotFound): // it has ended meanwhile
		case err != nil:
			return "", err
		case slices.Contains(names, e.Node): // or its node is dead, which has nothing to do with this
			return suchAs(e, names), nil
		}
	}
	return "", nil
}

func suchAs(e inspect.Explanation, names []string) string {
	others := slices.DeleteFunc(e.Nodes, func(n inspect.Verdict) bool { return n.Takes || slices.Contains(names, n.Node) })
	var why []string
	const shown = 3
	for _, n := range others[:min(len(others), shown)] {
		why = append(why, view.Printable(n.Node)+": "+n.Why)
	}
	if more := len(others) - shown; more > 0 {
		why = append(why, fmt.Sprintf("and %d more", more))
	}
	text := ", such as " + view.Printable(e.ID)
	if len(why) > 0 {
		text += " (" + strings.Join(why, "; ") + ")"
	}
	return text
}

// waitDrained returns when all of the nodes are drained or gone.
func (a *app) waitDrained(ctx context.Context, c *windlass.Client, names []string) error {
	return a.waitUntilNone(ctx, "draining", func() (left, tasks int, err error) {
		nodes, err := c.Nodes(ctx)
		for _, n := range nodes {
			if slices.Contains(names, n.Name) && (n.Tasks > 0 || !n.Draining) {
				left, tasks = left+1, tasks+n.Tasks
				if !n.SilentSince.IsZero() {
					err = errors.Join(err, fmt.Errorf("node %q: %s: %w", n.Name, view.NotRenewed(n.SilentSince, time.Now()), errDead))
				}
			}
		}
		return left, tasks, err
	})
}

// waitUntilNone asks until nothing is left, and shows how many tasks are.
func (a *app) waitUntilNone(ctx context.Context, what string, ask func() (left, tasks int, err error)) error {
	poll := time.NewTicker(250 * time.Millisecond)
	defer poll.Stop()
	var bar *progress
	defer func() { bar.end() }()
	for most := -1; ; {
		left, tasks, err := ask()
		if err != nil || left == 0 {
			return err
		}
		if most < 0 {
			most = tasks
			bar = a.newProgress(what, most)
		}
		bar.set(most - tasks)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
}

func (a *app) stopTaskCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop-task NODE TASK",
		Short: "Make a node give back one task that it runs",
		Args:  exactArgs("NODE", "TASK"),
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, args []string) error {
			parameters, _ := json.Marshal(map[string]string{"task": args[1]}) // strings can always be encoded
			return a.sendAll(ctx, c, args[:1], operate.Command{Command: operate.StopTask, Parameters: parameters})
		}),
	}
}

func (a *app) completeNodes(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return complete(cmd, func(ctx context.Context, offer func(string)) error {
		return a.withClient(ctx, func(c *windlass.Client) error {
			nodes, err := c.Nodes(ctx)
			for _, n := range nodes {
				offer(n.Name)
			}
			return err
		})
	})
}
