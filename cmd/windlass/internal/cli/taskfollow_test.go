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
		// covers is how much of the log a result stands for.
		covers int64
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
		"what overlaps is printed once":   {-1, []seen{{"ab", false, at("f", 2), false, 0}, {"abc", false, at("f", 3), false, 0}, {"abc", false, at("f", 3), false, 0}, {"cde", true, at("f", 5), false, 0}}, "abcde", ""},
		"only the last lines at first":    {1, []seen{{"1\n2\n", true, at("f", 9), false, 0}, {"2\n3\n4\n", true, at("f", 13), false, 0}}, "2\n3\n4\n", ""},
		"no line at first":                {0, []seen{{"1\n", false, at("f", 2), false, 0}, {"1\n2\n", false, at("f", 4), false, 0}}, "2\n", ""},
		"across a rotation":               {-1, []seen{{"ab", false, at("f", 2), false, 0}, {"abcd", false, rotated("g", 1, "f", 3), false, 0}}, "abcd", ""},
		"more than is reported":           {-1, []seen{{"ab", false, at("f", 2), false, 0}, {"yz", true, at("f", 9), false, 0}}, "ab\nyz", "windlass: up to 5 bytes are left out here\n"},
		"the beginning is not there":      {-1, []seen{{"yz", true, at("f", 9), false, 0}}, "yz", "windlass: the beginning is left out\n"},
		"to another host and back":        {-1, []seen{{"ab", false, at("f", 2), true, 0}, {"xy", false, at("g", 2), true, 0}, {"abc", false, at("f", 3), false, 0}, {"xyz", false, at("g", 3), false, 0}}, "ab\nxy\nc\nz", ""},
		"a last report with nothing new":  {-1, []seen{{"ab", false, at("f", 2), false, 0}, {"ab", false, at("f", 2), true, 0}, {"xy", false, at("g", 2), false, 0}}, "ab\nxy", ""},
		"a result without its first line": {-1, []seen{{"-ab", false, at("f", 3), false, 0}, {"cd", false, at("f", 6), true, 3}, {"e", false, at("f", 13), true, 2}}, "-ab\ncd\ne", "windlass: up to 5 bytes are left out here\n"},
		"a result after others":           {-1, []seen{{"cd", false, at("f", 6), true, 3}}, "cd", "windlass: the beginning is left out\n"},
		"a result that is all":            {-1, []seen{{"cd", false, at("f", 3), true, 3}}, "cd", ""},
		"from a node that died":           {-1, []seen{{"ab", false, at("f", 2), false, 0}, {"xy", false, at("g", 2), false, 0}}, "ab\nxy", "windlass: what it printed last on node n may be left out\n"},
		"an older result":                 {-1, []seen{{"ab", false, at("f", 2), false, 0}, {"a", false, at("f", 1), false, 0}, {"abc", false, at("f", 3), false, 0}}, "abc", ""},
		"nothing yet":                     {-1, []seen{{"", false, at("", 0), false, 0}, {"a", false, at("f", 1), false, 0}}, "a", ""},
	} {
		var out, notes strings.Builder
		f := follower{out: &logWriter{Writer: &out}, notes: &notes, lines: test.lines, last: -1}
		for _, s := range test.looks {
			if _, err := f.show(exectask.Report{Output: s.text, Truncated: s.cut, LogEnd: s.end, Last: s.last}, "n", s.covers); err != nil {
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
	f := follower{out: &logWriter{Writer: &out}, notes: &notes, lines: -1, last: -1}
	f.note("away")
	f.note("away")
	if _, err := f.show(exectask.Report{Output: "a", LogEnd: exectask.LogEnd{File: "f", Bytes: 1}}, "n", 0); err != nil {
		t.Fatal(err)
	}
	f.note("away")
	if got, want := notes.String(), "windlass: away\nwindlass: away\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
