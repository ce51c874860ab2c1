package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Markdown writes the report as the part of a document below a heading of the
// level given.
func (r *Report) Markdown(out io.Writer, level int) error {
	var b strings.Builder
	r.writeFacts(&b)
	for _, w := range r.Workloads {
		w.markdown(&b, level)
	}
	r.writeChecks(&b, level)
	_, err := io.WriteString(out, b.String())
	return err
}

func (r *Report) writeFacts(b *strings.Builder) {
	kind := "A full run"
	if r.Quick {
		kind = "A quick run (`--quick`: small numbers, few repetitions, other work on the machine; an indication and no more)"
	}
	fmt.Fprintf(b, "%s of %s.\n\n", kind, r.Date.UTC().Format("2006-01-02"))
	fmt.Fprintf(b, "| | |\n|---|---|\n")
	for _, facts := range [][]Fact{r.Machine, r.Versions} {
		for _, f := range facts {
			fmt.Fprintf(b, "| %s | %s |\n", f.Name, cell(f.Value))
		}
	}
	for _, what := range r.LeftOut {
		fmt.Fprintf(b, "| left out | %s |\n", cell(what))
	}
	b.WriteString("\n")
}

// markdown writes a workload: what it is, its table, and the sides' settings.
func (w *Workload) markdown(b *strings.Builder, level int) {
	fmt.Fprintf(b, "%s %s\n\n%s\n\n", strings.Repeat("#", level), w.Title, w.About)
	if !w.Apart.IsZero() {
		fmt.Fprintf(b, "Measured again in a run of its own, on the same machine, on %s.\n\n", w.Apart.UTC().Format("2006-01-02"))
	}
	rows, sides := w.rows(), w.sides()
	if len(rows) == 0 {
		b.WriteString("Nothing was measured.\n\n")
		return
	}
	fmt.Fprintf(b, "| | %s |\n|---|%s\n", strings.Join(sides, " | "), strings.Repeat("---|", len(sides)))
	for _, row := range rows {
		fmt.Fprintf(b, "| %s |", cell(row))
		for _, side := range sides {
			fmt.Fprintf(b, " %s |", w.Find(row, side).text())
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for _, side := range w.Sides {
		if side.Settings != "" && slices.Contains(sides, side.Name) {
			fmt.Fprintf(b, "- **%s**: %s\n", side.Name, side.Settings)
		}
	}
	if slices.ContainsFunc(w.Sides, func(s Side) bool { return s.Settings != "" }) {
		b.WriteString("\n")
	}
}

// rows are those of the table, in the order in which they were first measured.
func (w *Workload) rows() (rows []string) {
	for _, m := range w.Measures {
		if !m.Detail && !slices.Contains(rows, m.Row) {
			rows = append(rows, m.Row)
		}
	}
	return rows
}

// sides are those of which something was measured.
func (w *Workload) sides() (sides []string) {
	for _, s := range w.Sides {
		if slices.ContainsFunc(w.Measures, func(m *Measure) bool { return m.Side == s.Name && !m.Detail }) {
			sides = append(sides, s.Name)
		}
	}
	return sides
}

// text is what a cell of the table says.
func (m *Measure) text() string {
	if m == nil || m.Count == 0 {
		return "–"
	}
	if m.Count == 1 || m.Least == m.Most {
		return WithUnit(m.Median, m.Unit)
	}
	return fmt.Sprintf("**%s** (%s – %s)", WithUnit(m.Median, m.Unit), Number(m.Least), Number(m.Most))
}

func (r *Report) writeChecks(b *strings.Builder, level int) {
	if len(r.Checks) == 0 {
		return
	}
	fmt.Fprintf(b, "%s What it should show\n\n| expected | measured | |\n|---|---|---|\n", strings.Repeat("#", level))
	for _, c := range r.Checks {
		holds := "holds"
		if !c.Holds {
			holds = "**does not hold**"
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", cell(c.What), cell(c.Got), holds)
	}
	b.WriteString("\n")
}

// cell makes a text fit into a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|")
}

// WithUnit is a value as people read it.
func WithUnit(v float64, unit string) string {
	switch unit {
	case "":
		return Number(v)
	case PerSecond, Times:
		return Number(v) + unit
	}
	return Number(v) + " " + unit
}

// Number has three significant digits, or all of a whole number, with commas.
func Number(v float64) string {
	switch magnitude := math.Abs(v); {
	case v == math.Trunc(v), magnitude >= 100:
		return withCommas(int64(math.Round(v)))
	case magnitude >= 10:
		return fmt.Sprintf("%.1f", v)
	case magnitude >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func withCommas(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
