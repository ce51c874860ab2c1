package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/shorten"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
)

// table is what -o table prints: a heading, rows of cells, and a line below.
type table struct {
	heading []string
	rows    [][]string
	footer  string
}

// add adds a row of a name and a value, unless that is empty.
func (t *table) add(name, value string) {
	if value != "" {
		t.rows = append(t.rows, []string{name, value})
	}
}

func (t *table) addTime(name string, at *time.Time) {
	if at != nil {
		t.add(name, at.Format(time.RFC3339))
	}
}

// addErrors adds the errors of a task, each with all of its lines. Of those in a row that are of one
// kind, as "task failures" groups them, only the last is shown.
func (t *table) addErrors(errs []statemachine.ErrorEntry) {
	var since time.Time
	times := 0
	for i, e := range errs {
		first, rest, more := strings.Cut(strings.ReplaceAll(e.Error, "\t", "  "), "\n")
		if i+1 < len(errs) && shorten.Kind(e.Error) == shorten.Kind(errs[i+1].Error) {
			if times == 0 {
				since = e.Timestamp
			}
			times++
			continue
		}
		t.add("Error", e.Timestamp.Format(time.RFC3339)+" "+first)
		for line := ""; more; {
			line, rest, more = strings.Cut(rest, "\n")
			t.add("", line)
		}
		if times > 0 {
			t.add("", fmt.Sprintf("(and %d before of the same kind, since %s; -o json has them)", times, since.Format(time.RFC3339)))
			times = 0
		}
	}
}

// rowsOf makes a row of each item.
func rowsOf[T any](items []T, row func(T) []string) [][]string {
	rows := make([][]string, len(items))
	for i, item := range items {
		rows[i] = row(item)
	}
	return rows
}

// print writes value in the format that was asked for; t is its table.
func (a *app) print(value any, t func() table) error {
	switch a.output {
	case "json":
		return a.written(view.EncodeJSON(value, "  "))
	case "yaml":
		return a.written(encodeYAML(value))
	}
	return t().write(a.out)
}

// written writes what was encoded.
func (a *app) written(content []byte, err error) error {
	if err == nil {
		_, err = a.out.Write(content)
	}
	return err
}

func (t table) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(t.heading) > 0 {
		fmt.Fprintln(w, strings.Join(t.heading, "\t"))
	}
	for _, row := range t.rows {
		for i, cell := range row {
			row[i] = view.Printable(cell)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil || t.footer == "" {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s\n", t.footer)
	return err
}

// warn says what is probably not meant.
func (a *app) warn(texts ...string) {
	for _, text := range texts {
		fmt.Fprintln(a.err, "windlass: warning:", view.EscapeText(text))
	}
}

// warnUnused says that a namespace has never been used, which explains an empty list: its
// name may be mistyped.
func (a *app) warnUnused(ctx context.Context, c *windlass.Client, listed int) {
	if listed > 0 {
		return
	}
	if version, err := operate.New(c).Layout(ctx); err == nil && version == 0 {
		a.warn(fmt.Sprintf("nothing was ever in the namespace %q of this broker", cmp.Or(a.namespace, windlass.NamespaceDefault)))
	}
}

// warnSilent says, unless err is set, that processes are dead or cut off whose sessions nobody has
// ended: what they hold was shown as it was. It returns err.
func (a *app) warnSilent(ctx context.Context, b broker.Broker, err error) error {
	if err != nil {
		return err
	}
	space, err := a.space()
	if err != nil {
		return err
	}
	var silence session.Silence
	silent, err := silence.Of(ctx, b, space.Sessions())
	if err != nil || len(silent) == 0 {
		return nil // what was asked for was told
	}
	last := slices.MaxFunc(slices.Collect(maps.Values(silent)), time.Time.Compare)
	a.warn(fmt.Sprintf(`%d session(s) %s or longer: their processes are dead or cut off, and what they hold is shown as it was; "windlass node list" and "election list" name them`,
		len(silent), view.NotRenewed(last, time.Now())))
	return nil
}

// lineWriter prints a stream: rows under one heading, or one JSON object on a
// line, or YAML documents.
type lineWriter struct {
	app     *app
	heading []string
	widths  []int
	begun   bool
}

func (w *lineWriter) write(value any, row []string) error {
	switch w.app.output {
	case "json":
		return w.app.written(view.EncodeJSON(value, ""))
	case "yaml":
		content, err := encodeYAML(value)
		return w.app.written(append([]byte("---\n"), content...), err)
	}
	if !w.begun {
		w.begun = true
		if err := w.line(w.heading); err != nil {
			return err
		}
	}
	return w.line(row)
}

func (w *lineWriter) line(cells []string) error {
	var b strings.Builder
	for i, cell := range cells {
		fmt.Fprintf(&b, "%-*s  ", w.widths[i], view.Printable(cell))
	}
	_, err := fmt.Fprintln(w.app.out, strings.TrimRight(b.String(), " "))
	return err
}

// watch prints a line for each change, and continues after an error of the broker.
func watch[T any](lines lineWriter, changes iter.Seq2[T, error], show func(T) (value any, row []string)) error {
	for change, err := range changes {
		switch {
		case exitCode(err) == exitUsage:
			return err
		case err != nil:
			fmt.Fprintln(lines.app.err, "windlass:", err)
			continue
		}
		if err := lines.write(show(change)); err != nil {
			return err
		}
	}
	return nil
}
