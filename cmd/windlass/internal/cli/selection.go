package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
)

// selection picks tasks by what they are instead of by their IDs.
type selection struct {
	filter   windlass.Filter
	statuses []string
}

func (s *selection) register(cmd *cobra.Command, among []windlass.Status) {
	flags := cmd.Flags()
	flags.StringSliceVar(&s.filter.Types, "type", nil, "select tasks of these types")
	flags.StringSliceVar(&s.statuses, "status", nil, "select tasks of these statuses: "+names(among, ", "))
	flags.StringVar(&s.filter.IDPrefix, "id-prefix", "", "select tasks whose IDs begin with this")
	flags.StringSliceVar(&s.filter.Nodes, "node", nil, "select tasks that these nodes hold, or held last")
	flags.StringVar(&s.filter.Error, "error", "", "select tasks whose last error contains this")
	completeFlag(cmd, "status", among)
}

// given reports whether any of the flags was given.
func (s *selection) given(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"type", "status", "node", "id-prefix", "error"}, cmd.Flags().Changed)
}

// check refuses empty values: the variable of a script was empty, and the flag would
// select nothing, or everything.
func (s *selection) check(cmd *cobra.Command, among []windlass.Status) error {
	for flag, empty := range map[string]bool{
		"type": len(s.filter.Types) == 0, "node": len(s.filter.Nodes) == 0, "id-prefix": s.filter.IDPrefix == "", "error": s.filter.Error == "",
	} {
		if cmd.Flags().Changed(flag) && empty {
			return usagef(`--%s "": must not be empty`, flag)
		}
	}
	if cmd.Flags().Changed("status") && len(s.statuses) == 0 {
		return usagef(`--status "": must be one of %q`, among)
	}
	var err error
	s.filter.Statuses, err = statusesOf("--status", s.statuses, among)
	return err
}

// statusesOf reads the statuses that a flag names.
func statusesOf(flag string, wanted []string, among []windlass.Status) ([]windlass.Status, error) {
	var statuses []windlass.Status
	for _, name := range wanted {
		if !slices.Contains(among, windlass.Status(name)) {
			return nil, usagef("%s %q: must be one of %q", flag, name, among)
		}
		statuses = append(statuses, windlass.Status(name))
	}
	return statuses, nil
}

func names[S ~string](statuses []S, separator string) string {
	words := make([]string, len(statuses))
	for i, s := range statuses {
		words[i] = string(s)
	}
	return strings.Join(words, separator)
}

// previewMax is how many IDs a preview for people names.
const previewMax = 10

// previewOf names tasks on a line.
func previewOf(ids []string) string {
	switch n := len(ids); {
	case n == 0:
		return "no task"
	case n == 1:
		return "1 task: " + view.Printable(ids[0])
	case n > previewMax:
		return fmt.Sprintf("%d tasks: %s and %d more", n, view.Printable(strings.Join(ids[:previewMax], ", ")), n-previewMax)
	}
	return fmt.Sprintf("%d tasks: %s", len(ids), view.Printable(strings.Join(ids, ", ")))
}

// previewTable names tasks, or jobs by their paths, on a line each.
func previewTable[S ~string](what, unit string, ids []S) table {
	t := table{rows: [][]string{{what, fmt.Sprintf("%d %s(s)", len(ids), unit)}}}
	for _, id := range ids[:min(len(ids), previewMax)] {
		t.rows = append(t.rows, []string{"", string(id)})
	}
	if more := len(ids) - previewMax; more > 0 {
		t.rows = append(t.rows, []string{"", fmt.Sprintf("and %d more", more)})
	}
	return t
}
