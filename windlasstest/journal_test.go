package windlasstest

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestJournal_ShowsTheEndAndHowMuchCameBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		for i := range 10 * journalLinesMax {
			if i == 1 {
				if got, want := j.String(), "00:00:00.000  a        line 0\n"; got != want {
					t.Errorf("%q, not %q", got, want)
				}
			}
			j.note("a", "line %d", i)
			time.Sleep(time.Second)
			if n := len(j.lines); n >= 2*journalLinesMax {
				t.Fatalf("it keeps %d lines", n)
			}
		}
		lines := strings.Split(strings.TrimSpace(j.String()), "\n")
		if n := len(lines); n != journalLinesMax+1 || lines[0] != fmt.Sprintf("(%d lines before)", 9*journalLinesMax) ||
			!strings.HasSuffix(lines[n-1], fmt.Sprintf("line %d", 10*journalLinesMax-1)) {
			t.Errorf("%d lines, %q to %q", n, lines[0], lines[n-1])
		}
	})
}
