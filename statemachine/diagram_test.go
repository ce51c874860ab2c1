package statemachine

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the transitions in docs/guide/states.md")

// guide is the document that shows the transitions.
const guide = "../docs/guide/states.md"

// diagram draws the transitions, an arrow for each pair of states.
func diagram() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> runnable: submitted\n")
	for _, from := range allStates {
		for _, to := range allStates {
			var by []Message
			for _, m := range Messages {
				if transitions[from][m] == to {
					by = append(by, m)
				}
			}
			if len(by) > 0 {
				fmt.Fprintf(&b, "    %s --> %s: %s\n", from, to, joinMessages(by))
			}
		}
	}
	for _, s := range allStates {
		if s.Terminal() {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
	}
	b.WriteString("```\n")
	return b.String()
}

// table returns the next state for each state and message; a dash if it is refused.
func table() string {
	var b strings.Builder
	line := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	heading, rule := []string{""}, []string{"---"}
	for _, m := range Messages {
		heading, rule = append(heading, "`"+string(m)+"`"), append(rule, "---")
	}
	line(heading...)
	line(rule...)
	var refuse []string
	for _, s := range allStates {
		cells := []string{"**" + string(s) + "**"}
		for _, m := range Messages {
			cells = append(cells, cmp.Or(string(transitions[s][m]), "–"))
		}
		if s.Terminal() {
			refuse = append(refuse, cells[0])
			continue
		}
		line(cells...)
	}
	line(append([]string{strings.Join(refuse, ", ")}, slices.Repeat([]string{"–"}, len(Messages))...)...)
	return b.String()
}

// replacePart replaces the text between two markers. It returns false unless each
// marker is there once, in order.
func replacePart(document, name, part string) (string, bool) {
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->\n"
	before, rest, found := strings.Cut(document, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed || strings.Contains(after, begin) {
		return document, false
	}
	return before + begin + part + end + after, true
}

func TestTransitions_M51_TheGuideIsUpToDate(t *testing.T) {
	for s, by := range transitions {
		if !slices.Contains(allStates, s) {
			t.Errorf("the diagram leaves the state %s out", s)
		}
		for m, to := range by {
			if !slices.Contains(Messages, m) || !slices.Contains(allStates, to) {
				t.Errorf("the diagram leaves %s + %s = %s out", s, m, to)
			}
		}
	}
	before, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	after := string(before)
	for name, part := range map[string]string{"diagram": diagram(), "table": table()} {
		var ok bool
		if after, ok = replacePart(after, name, part); !ok {
			t.Fatalf("%s: the markers <!-- %s --> and <!-- /%s --> must be there once, in order, each on its own line", guide, name, name)
		}
	}
	switch {
	case after == string(before):
	case *update:
		if err := os.WriteFile(guide, []byte(after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is out of date; run: go test ./statemachine -update, and read the difference", guide)
	}
}

func TestReplacePart_NeedsItsMarkers(t *testing.T) {
	if text, ok := replacePart("a\n<!-- x -->\nold\n<!-- /x -->\nb\n", "x", "new\n"); !ok || text != "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n" {
		t.Errorf("%q, %v", text, ok)
	}
	for _, bad := range []string{"", "<!-- x -->\n", "<!-- /x -->\n<!-- x -->\n", "<!-- x -->\n<!-- /x -->\n<!-- x -->\n"} {
		if text, ok := replacePart(bad, "x", "new\n"); ok || text != bad {
			t.Errorf("%q was accepted: %q", bad, text)
		}
	}
}
