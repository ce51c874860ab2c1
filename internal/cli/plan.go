package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
)

// exitChanges is the exit code of a plan that moves something.
const exitChanges = 10

// errChanges makes it the exit code.
var errChanges = errors.New("the plan moves tasks")

func (a *app) planCommand() *cobra.Command {
	var joins, sets, leaves []string
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what would move if nodes joined, left or changed",
		Long: `Show which tasks would move, and how even it would be, if nodes joined, left, or
had another weight, capacity, zone or label. Nothing is changed. Without a flag it
shows what would move as things are.

Exit codes: 0 if nothing would move, 10 if something would.`,
		Example: `  windlass plan --join n4
  windlass plan --leave n1 --join n5:weight=2,zone=east,label.disk=ssd
  windlass plan --set n2:capacity=500`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checkOutput(); err != nil {
				return err
			}
			return a.withClient(cmd.Context(), func(c *windlass.Client) error {
				report, err := c.Plan(cmd.Context(), func(nodes []windlass.NodeInfo) ([]windlass.NodeInfo, error) {
					return editNodes(nodes, joins, leaves, sets)
				})
				if err != nil {
					return err
				}
				if err := a.print(report, func() table { return planTable(report) }); err != nil {
					return err
				}
				if a.output == "table" {
					fmt.Fprintf(a.out, "\n%d task(s) would move, %d would wait; imbalance %.1f %% before, %.1f %% after\n",
						report.Moved, report.Waiting, 100*report.ImbalanceBefore, 100*report.ImbalanceAfter)
				}
				if len(report.Moves) > 0 {
					return errChanges
				}
				return nil
			})
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&joins, "join", nil, "node that joins: NAME, or NAME:weight=N,capacity=N,zone=Z,label.KEY=VALUE; repeatable")
	flags.StringArrayVar(&leaves, "leave", nil, "node that leaves; repeatable")
	flags.StringArrayVar(&sets, "set", nil, "node that changes: NAME:weight=N,capacity=N,zone=Z,label.KEY=VALUE,frozen=BOOL; repeatable")
	return a.outputFlag(cmd)
}

// editNodes makes the nodes of a plan from the present ones. A node that joins
// runs every type of task that some node runs now.
func editNodes(nodes []windlass.NodeInfo, joins, leaves, sets []string) ([]windlass.NodeInfo, error) {
	types := map[string]bool{}
	for _, n := range nodes {
		for _, t := range n.Types {
			types[t] = true
		}
	}
	at := func(name string) int {
		return slices.IndexFunc(nodes, func(n windlass.NodeInfo) bool { return n.Name == name })
	}
	for _, name := range leaves {
		i := at(name)
		if i < 0 {
			return nil, fmt.Errorf("--leave: node %q: %w", name, windlass.ErrNotFound)
		}
		nodes = slices.Delete(nodes, i, i+1)
	}
	for _, text := range sets {
		name, settings, _ := strings.Cut(text, ":")
		i := at(name)
		if i < 0 {
			return nil, fmt.Errorf("--set: node %q: %w", name, windlass.ErrNotFound)
		}
		nodes[i].Labels = maps.Clone(nodes[i].Labels)
		if err := setNode(&nodes[i], settings); err != nil {
			return nil, usagef("--set %q: %w", text, err)
		}
	}
	for _, text := range joins {
		name, settings, _ := strings.Cut(text, ":")
		if at(name) >= 0 {
			return nil, usagef("--join %q: a node of this name is there", text)
		}
		n := windlass.NodeInfo{Name: name, Types: slices.Sorted(maps.Keys(types))}
		if err := setNode(&n, settings); err != nil {
			return nil, usagef("--join %q: %w", text, err)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// setNode reads settings such as weight=2,zone=east.
func setNode(n *windlass.NodeInfo, settings string) (err error) {
	if settings == "" {
		return nil
	}
	for setting := range strings.SplitSeq(settings, ",") {
		key, value, ok := strings.Cut(setting, "=")
		label, isLabel := strings.CutPrefix(key, "label.")
		switch {
		case !ok:
			return fmt.Errorf("%q must be like key=value", setting)
		case key == "weight":
			n.Weight, err = strconv.Atoi(value)
		case key == "capacity":
			n.Capacity, err = strconv.Atoi(value)
		case key == "zone":
			n.Zone = value
		case key == "frozen":
			n.Frozen, err = strconv.ParseBool(value)
		case isLabel:
			if n.Labels == nil {
				n.Labels = map[string]string{}
			}
			n.Labels[label] = value
		default:
			return fmt.Errorf("%q must be one of weight, capacity, zone, frozen and label.KEY", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	return nil
}

func planTable(r windlass.PlanReport) table {
	t := table{heading: []string{"NODE", "BEFORE", "AFTER", "CHANGE", "GIVES", "TAKES"}}
	gives, takes := map[string]int{}, map[string]int{}
	for _, m := range r.Moves {
		gives[m.From] += m.Tasks
		takes[m.To] += m.Tasks
	}
	for _, n := range r.Nodes {
		change := n.Change
		if d := n.After - n.Before; change == "" && d != 0 {
			change = fmt.Sprintf("%+d", d)
		}
		t.rows = append(t.rows, []string{
			n.Name, strconv.Itoa(n.Before), strconv.Itoa(n.After), orDash(change), strconv.Itoa(gives[n.Name]), strconv.Itoa(takes[n.Name]),
		})
	}
	return t
}
