package cli

import (
	"fmt"
	"slices"
	"strconv"
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
	completeStatuses(cmd, "status", among)
}

// given tells whether tasks are selected.
func (s *selection) given(cmd *cobra.Command) bool {
	flags := cmd.Flags()
	return flags.Changed("type") || flags.Changed("status") || flags.Changed("id-prefix")
}

// check refuses what selects nothing or, because a variable of a script was
// empty, everything.
func (s *selection) check(cmd *cobra.Command, among []windlass.Status) error {
	flags := cmd.Flags()
	switch {
	case flags.Changed("type") && len(s.filter.Types) == 0:
		return usagef(`--type "": must not be empty`)
	case flags.Changed("status") && len(s.statuses) == 0:
		return usagef(`--status "": must be one of %q`, among)
	case flags.Changed("id-prefix") && s.filter.IDPrefix == "":
		return usagef(`--id-prefix "": must not be empty`)
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

// completeStatuses offers statuses to the shell as values of a flag.
func completeStatuses(cmd *cobra.Command, flag string, among []windlass.Status) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(strings.Fields(names(among, " ")), cobra.ShellCompDirectiveNoFileComp))
}

// previewMax is how many IDs a preview for people names.
const previewMax = 10

// preview is a view.Preview that people can read.
type preview struct{ view.Preview }

func newPreview(ids []string) preview { return preview{view.PreviewOf(ids)} }

// String implements fmt.Stringer.
func (p preview) String() string {
	switch {
	case p.Tasks == 0:
		return "no task"
	case p.Tasks == 1:
		return "1 task: " + printable(p.IDs[0])
	case p.Tasks > previewMax:
		return fmt.Sprintf("%d tasks: %s and %d more", p.Tasks, printable(strings.Join(p.IDs[:previewMax], ", ")), p.Tasks-previewMax)
	}
	return fmt.Sprintf("%d tasks: %s", p.Tasks, printable(strings.Join(p.IDs, ", ")))
}

func (p preview) table(what string) table {
	t := table{rows: [][]string{{what, strconv.Itoa(p.Tasks) + " task(s)"}}}
	for _, id := range p.IDs[:min(p.Tasks, previewMax)] {
		t.rows = append(t.rows, []string{"", id})
	}
	if more := p.Tasks - previewMax; more > 0 {
		t.rows = append(t.rows, []string{"", fmt.Sprintf("and %d more", more)})
	}
	return t
}
