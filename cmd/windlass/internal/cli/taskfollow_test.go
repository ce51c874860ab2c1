package cli

import (
	"strings"
	"testing"

	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
)

// TestFollower_JoinsWhatItSees gives looks at a log as a node would report them.
func TestFollower_JoinsWhatItSees(t *testing.T) {
	type seen struct {
		text string
		cut  bool
		end  exectask.LogEnd
		last bool
	}
	at := func(file string, n int64) exectask.LogEnd { return exectask.LogEnd{File: file, Bytes: n} }
	rotated := func(file string, n int64, before string, m int64) exectask.LogEnd {
		return exectask.LogEnd{File: file, Bytes: n, Rotated: before, RotatedBytes: m}
	}
	for name, test := range map[string]struct {
		lines       int
		looks       []seen
		want, notes string
	}{
		"what overlaps is printed once":  {-1, []seen{{"ab", false, at("f", 2), false}, {"abc", false, at("f", 3), false}, {"abc", false, at("f", 3), false}, {"cde", true, at("f", 5), false}}, "abcde", ""},
		"only the last lines at first":   {1, []seen{{"1\n2\n", true, at("f", 9), false}, {"2\n3\n4\n", true, at("f", 13), false}}, "2\n3\n4\n", ""},
		"no line at first":               {0, []seen{{"1\n", false, at("f", 2), false}, {"1\n2\n", false, at("f", 4), false}}, "2\n", ""},
		"across a rotation":              {-1, []seen{{"ab", false, at("f", 2), false}, {"abcd", false, rotated("g", 1, "f", 3), false}}, "abcd", ""},
		"more than is reported":          {-1, []seen{{"ab", false, at("f", 2), false}, {"yz", true, at("f", 9), false}}, "abyz", "windlass: up to 5 bytes are left out here\n"},
		"the beginning is not there":     {-1, []seen{{"yz", true, at("f", 9), false}}, "yz", "windlass: the beginning is left out\n"},
		"to another host and back":       {-1, []seen{{"ab", false, at("f", 2), true}, {"xy", false, at("g", 2), true}, {"abc", false, at("f", 3), false}, {"xyz", false, at("g", 3), false}}, "abxycz", ""},
		"a last report with nothing new": {-1, []seen{{"ab", false, at("f", 2), false}, {"ab", false, at("f", 2), true}, {"xy", false, at("g", 2), false}}, "abxy", ""},
		"from a node that died":          {-1, []seen{{"ab", false, at("f", 2), false}, {"xy", false, at("g", 2), false}}, "abxy", "windlass: what it printed last on node n may be left out\n"},
		"an older result":                {-1, []seen{{"ab", false, at("f", 2), false}, {"a", false, at("f", 1), false}, {"abc", false, at("f", 3), false}}, "abc", ""},
		"nothing yet":                    {-1, []seen{{"", false, at("", 0), false}, {"a", false, at("f", 1), false}}, "a", ""},
	} {
		var out, notes strings.Builder
		f := follower{out: &out, notes: &notes, lines: test.lines}
		for _, s := range test.looks {
			if _, err := f.show(exectask.Report{Output: s.text, Truncated: s.cut, LogEnd: s.end, Last: s.last}, "n"); err != nil {
				t.Fatal(err)
			}
		}
		if out.String() != test.want || notes.String() != test.notes {
			t.Errorf("%s: %q and %q, want %q and %q", name, &out, &notes, test.want, test.notes)
		}
	}
}

func TestFollower_SaysWhatGoesOnOnce(t *testing.T) {
	var out, notes strings.Builder
	f := follower{out: &out, notes: &notes, lines: -1}
	f.note("away")
	f.note("away")
	if _, err := f.show(exectask.Report{Output: "a", LogEnd: exectask.LogEnd{File: "f", Bytes: 1}}, "n"); err != nil {
		t.Fatal(err)
	}
	f.note("away")
	if got, want := notes.String(), "windlass: away\nwindlass: away\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
