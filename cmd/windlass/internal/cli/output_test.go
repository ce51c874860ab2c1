package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/statemachine"
)

// hostile is what another may call a task, or say in an error.
const hostile = "a\x1b[31m\x7f\u0085\u009b2J\u202eevil\u2066\ufeff\U000e0041 \u00e9 \u4e16 \U0001f600 z"

func TestOutput_EscapesWhatATerminalInterprets(t *testing.T) {
	value := []map[string]any{
		{"id": "good", "n": json.Number("12"), "f": json.Number("1.50"), "yes": true, "none": nil, "empty": []any{}, "no": map[string]any{}},
		{"id": hostile, hostile: "name", "lines": "a\nb\n", "like": []any{"true", "12", "null", "2026-01-01", "- x", "#", "", " lead", "a: b", "\u2028", "1e3"}},
	}
	var want any
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &want); err != nil {
		t.Fatal(err)
	}
	for format, decode := range map[string]func([]byte, any) error{"json": json.Unmarshal, "yaml": yaml.Unmarshal} {
		for how, print := range map[string]func(*app) error{
			"at once": func(a *app) error { return a.print(value, nil) }, "line by line": func(a *app) error { return (&lineWriter{app: a}).write(value, nil) },
		} {
			var out bytes.Buffer
			if err := print(&app{out: &out, output: format}); err != nil {
				t.Fatalf("%s %s: %v", format, how, err)
			}
			if strings.ContainsFunc(out.String(), func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }) {
				t.Errorf("%s %s: %q", format, how, &out)
			}
			var got any
			if err := decode(out.Bytes(), &got); err != nil {
				t.Fatalf("%s %s: %v: %s", format, how, err, &out)
			}
			again, err := json.Marshal(got) // YAML has other numbers
			if err == nil {
				err = json.Unmarshal(again, &got)
			}
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%s %s says %v, want %v: %v", format, how, got, want, err)
			}
		}
	}
}

func TestTable_ShowsTheLinesOfAnErrorBelowEachOther(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var shown table
	shown.add("ID", "a")
	shown.addErrors([]statemachine.ErrorEntry{{Timestamp: at, Error: "panic: no row\n  main.import (import.go:7)\n\n\tmain.run (main.go:3)"}, {Timestamp: at, Error: "no"}})
	var out bytes.Buffer
	if err := shown.write(&out); err != nil {
		t.Fatal(err)
	}
	const want = `
ID     a
Error  2026-01-02T03:04:05Z panic: no row
         main.import (import.go:7)
         main.run (main.go:3)
Error  2026-01-02T03:04:05Z no
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("%s", got)
	}
}

// A task that fails in the same way again and again shows that once, with the latest stack.
func TestTable_ErrorsOfOneKindAreShownOnce(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var errs []statemachine.ErrorEntry
	for i, text := range []string{"no", "panic: x at 10\n  one", "panic: x at 11\n  two", "panic: x at 12\n  three", "no"} {
		errs = append(errs, statemachine.ErrorEntry{Timestamp: at.Add(time.Duration(i) * time.Minute), Error: text})
	}
	var shown table
	shown.addErrors(errs)
	var out bytes.Buffer
	if err := shown.write(&out); err != nil {
		t.Fatal(err)
	}
	const want = `
Error  2026-01-02T03:04:05Z no
Error  2026-01-02T03:07:05Z panic: x at 12
         three
       (and 2 before of the same kind, since 2026-01-02T03:05:05Z; -o json has them)
Error  2026-01-02T03:08:05Z no
`
	if got := "\n" + out.String(); got != want {
		t.Errorf("%s", got)
	}
}

// A fleet has many nodes of a kind: what is the same of them is said once.
func TestExplanation_NodesWithOneVerdictAreOneRow(t *testing.T) {
	e := inspect.Explanation{ID: "a", Why: "no node can take it"}
	for i := range 60 {
		e.Nodes = append(e.Nodes, inspect.Verdict{Node: fmt.Sprintf("n%02d", i), Why: map[bool]string{true: "it is full", false: "it lacks the label disk=ssd"}[i == 1]})
	}
	var out bytes.Buffer
	if err := explanationTable(e).write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"nodes n00, n02, n03 and 56 more  cannot take it: it lacks the label disk=ssd\n", "node n01                         cannot take it: it is full\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s", out.String())
		}
	}
}

func TestDeaths_AnOldSuspectIsNotNoneAndALateTimeIsNotExact(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	rows := deathTable([]events.Death{
		{Node: "a", At: at, Claims: 3, Lost: []events.Lost{{Task: "x"}}, Recent: 1},
		{Node: "b", At: at, Claims: 3, Lost: []events.Lost{{Task: "x"}}, Late: true},
		{Node: "c", At: at},
	}, at.Add(5*time.Minute)).rows
	for i, want := range []string{"a node 5m 3 - x", "b node 5m or more 3 - none new", "c node 5m 0 - -"} {
		if got := strings.Join(rows[i], " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
