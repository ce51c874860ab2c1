package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/windlass-go/windlass/internal/view"
)

// table is what -o table prints: a heading, rows of cells, and a line below.
type table struct {
	heading []string
	rows    [][]string
	footer  string
}

// print writes value in the format that was asked for; t is its table.
func (a *app) print(value any, t func() table) error {
	switch a.output {
	case "json":
		return a.written(view.EncodeJSON(value, "  "))
	case "yaml":
		return a.written(encodeYAML(value))
	case "table":
		return t().write(a.out)
	}
	return usagef("-o %q: must be table, json or yaml", a.output)
}

// written writes what was encoded.
func (a *app) written(content []byte, err error) error {
	if err == nil {
		_, err = a.out.Write(content)
	}
	return err
}

// checkOutput refuses a format before anything is done.
func (a *app) checkOutput() error {
	switch a.output {
	case "table", "json", "yaml":
		return nil
	}
	return usagef("-o %q: must be table, json or yaml", a.output)
}

func (t table) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(t.heading) > 0 {
		fmt.Fprintln(w, strings.Join(t.heading, "\t"))
	}
	for _, row := range t.rows {
		for i, cell := range row {
			row[i] = printable(cell)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil || t.footer == "" {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", t.footer)
	return err
}

// printable keeps what a task or node calls itself from moving the cursor.
func printable(s string) string { return view.Printable(s) }

// age is how long ago something was, as people say it.
func age(at *time.Time, now time.Time) string { return view.Age(at, now) }

// ago is age as a statement.
func ago(at *time.Time, now time.Time) string {
	if text := age(at, now); text != "-" {
		return text + " ago"
	}
	return "-"
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "-"
}
