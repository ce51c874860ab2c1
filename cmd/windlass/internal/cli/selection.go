package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/view"
)

// selection picks tasks by what they are instead of by their IDs.
type selection struct {
	filter   windlass.Filter
	statuses []string
	search   searchFlags
}

func (s *selection) register(cmd *cobra.Command, among []windlass.Status) {
	flags := cmd.Flags()
	flags.StringSliceVar(&s.filter.Types, "type", nil, "select tasks of these types")
	flags.StringSliceVar(&s.statuses, "status", nil, "select tasks of these statuses: "+names(among, ", "))
	flags.StringSliceVar(&s.filter.Nodes, "node", nil, "select tasks that these nodes hold, or held last")
	s.search.register(cmd, &s.filter, "select tasks")
	completeFlag(cmd, "status", among)
}

// searchFlags find tasks by what is not one of a few values.
type searchFlags struct {
	tags  []string
	since string
}

// register adds the flags to those of a filter; what is what they find.
func (s *searchFlags) register(cmd *cobra.Command, f *windlass.Filter, what string) {
	flags := cmd.Flags()
	flags.StringVar(&f.IDPrefix, "id-prefix", "", what+" whose IDs begin with this")
	flags.StringVar(&f.Error, "error", "", what+" whose last error contains this")
	flags.StringArrayVar(&s.tags, "tag", nil, what+" with this tag, as key=value, or with any value of a key; repeatable, and all must match")
	flags.StringVar(&s.since, "since", "", what+" to which something has happened since: RFC 3339, or a duration before now such as 2h")
}

// read completes the filter. It refuses empty values, as selection.check does.
func (s *searchFlags) read(cmd *cobra.Command, f *windlass.Filter) (err error) {
	if f.Tags, err = view.TagFilter("--tag", s.tags); err != nil || !cmd.Flags().Changed("since") {
		return err
	}
	now := time.Now()
	f.Since, err = time.Parse(time.RFC3339, s.since)
	if d, durationErr := time.ParseDuration(s.since); durationErr == nil {
		f.Since, err = now.Add(-d), nil
	}
	if err != nil || f.Since.After(now) {
		return usagef("--since %q: must be like 2h or 2026-01-02T15:04:05Z, and not in the future", s.since)
	}
	return nil
}

// given reports whether any of the flags was given.
func (s *selection) given(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"type", "status", "node", "id-prefix", "error", "tag", "since"}, cmd.Flags().Changed)
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
	return cmp.Or(err, s.search.read(cmd, &s.filter))
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
