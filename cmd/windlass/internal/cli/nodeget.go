package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/operate"
)

// nodeDetail is all that is known of a node. Its JSON is stable.
type nodeDetail struct {
	windlass.NodeStatus
	// Held is how many tasks it holds, or held last, by type and status.
	Held map[string]map[windlass.Status]int `json:"held"`
	// Deaths are those of the node within the last hour, the latest first.
	Deaths []events.Death `json:"deaths"`
}

func (a *app) nodeGetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get NODE",
		Short: "Show everything about one node",
		Long: `Show everything about one node: its state, how it was started, the tasks that it holds
or held last, by type and status, and when it died within the last hour. A node that is
away and not to be back is not found; "node list" has its cordon, "node deaths" its deaths.`,
		Args:              exactArgs("NODE"),
		ValidArgsFunction: a.completeNodes,
		RunE: a.onClient(func(ctx context.Context, c *windlass.Client, args []string) error {
			node, err := nodeOf(ctx, c, args[0])
			if err != nil {
				return err
			}
			return a.print(node, func() table { return nodeDetailTable(node, time.Now()) })
		}),
	}
	return a.outputFlag(cmd)
}

func nodeOf(ctx context.Context, c *windlass.Client, name string) (nodeDetail, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nodeDetail{}, err
	}
	i := slices.IndexFunc(nodes, func(n windlass.NodeStatus) bool { return n.Name == name })
	if i < 0 {
		return nodeDetail{}, fmt.Errorf("node %q: %w", name, windlass.ErrNotFound)
	}
	node := nodeDetail{NodeStatus: nodes[i], Held: map[string]map[windlass.Status]int{}}
	tasks, err := c.Tasks(ctx, windlass.Filter{Nodes: []string{name}})
	if err != nil {
		return nodeDetail{}, err
	}
	for _, t := range tasks {
		if node.Held[t.Type] == nil {
			node.Held[t.Type] = map[windlass.Status]int{}
		}
		node.Held[t.Type][t.Status]++
	}
	deaths, err := operate.New(c).Deaths(ctx)
	node.Deaths = slices.DeleteFunc(deaths, func(d events.Death) bool { return d.Node != name })
	return node, err
}

func nodeDetailTable(n nodeDetail, now time.Time) table {
	detail := table{rows: [][]string{{"Name", n.Name}, {"Status", view.NodeState(n.NodeStatus, time.Now())}}}
	detail.add("Problem", n.Problem)
	if n.Cordon != nil {
		since := view.Ago(&n.Cordon.At, now)
		if n.Cordon.By != "" {
			since += " by " + n.Cordon.By
		}
		if n.Cordon.Reason != "" {
			since += ": " + n.Cordon.Reason
		}
		detail.add("Cordoned", since)
	}
	if !n.Probation.IsZero() {
		detail.addTime("On probation until", &n.Probation)
	}
	detail.rows = append(detail.rows, [][]string{
		{"Version", view.OrDash(n.Version)}, {"Host", view.OrDash(n.Host)}, {"Zone", view.OrDash(n.Zone)},
		{"Started", view.Ago(&n.StartedAt, now)}, {"Session TTL", view.OrDash(n.SessionTTL)}, {"Incarnation", n.Incarnation},
		{"Tasks", strconv.Itoa(n.Tasks)},
	}...)
	for _, name := range slices.Sorted(maps.Keys(n.Held)) {
		detail.add("  of type "+view.OrDash(name), heldText(n.Held[name]))
	}
	detail.add("Labels", pairs(n.Labels))
	detail.add("Types", strings.Join(n.Types, ", "))
	detail.add("Only on request", strings.Join(n.Pulls, ", "))
	detail.add("At once at most", pairs(n.Limits))
	for _, number := range []struct {
		name string
		n    int
	}{{"Capacity", n.Capacity}, {"Weight", n.Weight}, {"Load", n.Load}} {
		if number.n != 0 {
			detail.add(number.name, strconv.Itoa(number.n))
		}
	}
	detail.add("Short-lived types", strings.Join(n.ShortLived, ", "))
	detail.add("Slowest renewal", n.SlowRenewal)
	detail.add("Output in", n.LogDir)
	for _, d := range n.Deaths {
		died := fmt.Sprintf("%s, with %d claim(s)", view.Ago(&d.At, now), d.Claims)
		if d.Process != "" {
			died += ", its " + view.Printable(d.Process)
		}
		if d.Culprit != "" {
			died += ", by task " + d.Culprit
		}
		detail.add("Died", died)
	}
	return detail
}

// heldText has the numbers of tasks in the order of the statuses.
func heldText(counts map[windlass.Status]int) string {
	var parts []string
	for _, s := range windlass.Statuses {
		if counts[s] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	return strings.Join(parts, ", ")
}

// pairs are the entries of a map, sorted by their names.
func pairs[V any](m map[string]V) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		texts = append(texts, fmt.Sprintf("%s=%v", name, m[name]))
	}
	return strings.Join(texts, ", ")
}
