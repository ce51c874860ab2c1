package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/internal/view"
)

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
		fmt.Fprintf(&b, "%-*s  ", w.widths[i], printable(cell))
	}
	_, err := fmt.Fprintln(w.app.out, strings.TrimRight(b.String(), " "))
	return err
}

// outcomeOf reads the result of a task that ran a command.
func outcomeOf(t windlass.TaskDetail) (exectask.Outcome, bool) {
	var o exectask.Outcome
	if len(t.Result) == 0 || json.Unmarshal(t.Result, &o) != nil {
		return o, false
	}
	return o, true
}
