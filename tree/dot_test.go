package tree

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-go/windlass"
)

func dotOf(t testing.TB, f *Forest, title string) string {
	t.Helper()
	var b strings.Builder
	if err := f.DOT(&b, title); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDOT_Z12_ParentsAreSolidEdgesAndNeedsDashedOnes(t *testing.T) {
	f := NewForest([]JobInfo{
		job("a_t", windlass.StatusCompleted),
		job("a_t/b_t", windlass.StatusFailed),
		job("a_t/c_t", windlass.StatusBlocked, needs("a_t|b_t", "import-7")),
		job("gone_t/d_t", windlass.StatusRunning, needs("import-7")),
	})
	want := `digraph "nightly" {
  label="nightly";
  labelloc=t;
  rankdir=LR;
  node [shape=box, style="rounded,filled", fillcolor=white];
  "a_t" [label="a\nt", fillcolor=palegreen, tooltip="completed"];
  "a_t|b_t" [label="b\nt", fillcolor=salmon, tooltip="failed"];
  "a_t" -> "a_t|b_t";
  "a_t|c_t" [label="c\nt", fillcolor=lightgrey, tooltip="blocked"];
  "a_t" -> "a_t|c_t";
  "gone_t" [label="gone\nt", fillcolor=white, tooltip="not queued", style="rounded,dashed"];
  "gone_t|d_t" [label="d\nt", fillcolor=lightskyblue, tooltip="running"];
  "gone_t" -> "gone_t|d_t";
  "a_t|b_t" -> "a_t|c_t" [style=dashed];
  "import-7" [label="import-7", style="rounded,dashed"];
  "import-7" -> "a_t|c_t" [style=dashed];
  "import-7" -> "gone_t|d_t" [style=dashed];
}
`
	if diff := cmp.Diff(want, dotOf(t, f, "nightly")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	part := dotOf(t, f.Subtree("a_t/c_t"), "")
	for line, want := range map[string]bool{
		`  "a_t|b_t" [label="a_t|b_t", style="rounded,dashed"];`: true,
		`  "a_t|b_t" -> "a_t|c_t" [style=dashed];`:               true,
		`  "a_t" -> "a_t|c_t";`:                                  false,
	} {
		if strings.Contains(part, line+"\n") != want {
			t.Errorf("%s is in a part: %v\n%s", line, !want, part)
		}
	}
}

// quoted is a string of Graphviz, with nothing in it that would end it.
var quoted = regexp.MustCompile(`"([^"\\]|\\.)*"`)

func TestDOT_Z09_NoNameEndsItsQuotes(t *testing.T) {
	evil := `a"]; b [label="\` + "\n\x1b"
	f := NewForest([]JobInfo{job(Path(evil+"_t"), windlass.StatusPending, needs(evil, `\`, "&lt;"))})
	text := dotOf(t, f, evil)
	for line := range strings.Lines(text) {
		if rest := quoted.ReplaceAllString(line, "Q"); strings.ContainsAny(rest, `"\`) || strings.Count(rest, "[") > 1 || strings.Contains(line, "\x1b") {
			t.Errorf("%q has quotes that do not close: %q", line, rest)
		}
	}
	for _, want := range []string{`digraph "a\"]; b [label=\"\\\\n\\x1b" {`, `"\\" [label="\\", `, `"&lt;" [label="&amp;lt;", `} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
}

func FuzzDOT(f *testing.F) {
	f.Add("a_t", `"`, `\`)
	f.Add("a_t/b", "\n", `\"`)
	f.Fuzz(func(t *testing.T, path, need, title string) {
		text := dotOf(t, NewForest([]JobInfo{job(Path(path), windlass.StatusPending, needs(need))}), title)
		if rest := quoted.ReplaceAllString(text, "Q"); strings.ContainsAny(rest, `"\`) {
			t.Errorf("quotes do not close: %q", rest)
		}
	})
}
