package tree

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// DOT writes the forest for Graphviz: a solid edge from each job to those below
// it, a dashed one from each task that a job needs to the job. So all edges point
// to what comes later. What is needed but is not in the forest has a dashed
// outline, as have jobs that are missing.
func (f *Forest) DOT(w io.Writer, title string) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "digraph %s {\n", dotQuote(title))
	fmt.Fprintf(out, "  label=%s;\n  labelloc=t;\n  rankdir=LR;\n", dotLabel(title))
	fmt.Fprintln(out, "  node [shape=box, style=\"rounded,filled\", fillcolor=white];")
	for i := f.from; i < f.to; i++ {
		f.dotNode(out, &f.nodes[i])
	}
	f.dotNeeds(out)
	fmt.Fprintln(out, "}")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write the tree for Graphviz: %w", err)
	}
	return nil
}

// dotNode writes a node and the edge that leads to it. Errors stay in out.
func (f *Forest) dotNode(out io.Writer, n *node) {
	name, jobType := labelOf(&n.job)
	style := ""
	if !n.queued {
		style = ", style=\"rounded,dashed\""
	}
	fmt.Fprintf(out, "  %s [label=%s, fillcolor=%s, tooltip=%s%s];\n",
		dotQuote(n.job.ID), dotLabel(name, jobType), looks[n.look].fill, dotLabel(looks[n.look].words), style)
	if _, ok := f.index(n.job.Parent); ok {
		fmt.Fprintf(out, "  %s -> %s;\n", dotQuote(n.job.Parent.ID()), dotQuote(n.job.ID))
	}
}

func (f *Forest) dotNeeds(out io.Writer) {
	outside := map[string]bool{}
	for i := f.from; i < f.to; i++ {
		j := &f.nodes[i].job
		for _, need := range j.Needs {
			if _, ok := f.index(pathOf(need)); !ok && !outside[need] {
				outside[need] = true
				fmt.Fprintf(out, "  %s [label=%s, style=\"rounded,dashed\"];\n", dotQuote(need), dotLabel(need))
			}
			fmt.Fprintf(out, "  %s -> %s [style=dashed];\n", dotQuote(need), dotQuote(j.ID))
		}
	}
}

// dotEscape escapes quotes, and backslashes, which begin an escape in a label;
// elsewhere they do not, but an ID only has to be the same everywhere.
var dotEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func dotQuote(s string) string { return `"` + dotEscape.Replace(printable(s, false)) + `"` }

// dotLabel makes a label of lines. In one, unlike in an ID, entities of HTML
// are read.
func dotLabel(lines ...string) string {
	escaped := make([]string, len(lines))
	for i, line := range lines {
		escaped[i] = strings.ReplaceAll(dotEscape.Replace(printable(line, false)), "&", "&amp;")
	}
	return `"` + strings.Join(escaped, `\n`) + `"`
}
