package cli

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"
)

func TestProgressLine_FitsTheWidth(t *testing.T) {
	for _, c := range []struct {
		what        string
		done, total int
		passed      time.Duration
		width       int
		want        string
	}{
		{"submitting", 0, 200, 0, 79, "submitting [..............................] 0 of 200   0%"},
		{"submitting", 50, 200, time.Second, 79, "submitting [#######.......................] 50 of 200  25%"},
		{"submitting", 50, 200, 10 * time.Second, 79, "submitting [#######.......................] 50 of 200  25%  30s left"},
		{"submitting", 200, 200, 10 * time.Second, 79, "submitting [##############################] 200 of 200 100%"},
		{"submitting", 50, 200, 10 * time.Second, 50, "submitting [###.........] 50 of 200  25%  30s left"},
		{"submitting", 50, 200, 10 * time.Second, 40, "submitting [###.........] 50 of 200  25%"},
		{"submitting", 50, 200, 10 * time.Second, 30, "submitting 50 of 200  25%"},
		{"submitting", 50, 200, 10 * time.Second, 12, "submitting 5"},
		{"submitting", 300, 200, 0, 30, "submitting 200 of 200 100%"},
		{"waiting for a\x1b[2J", 0, 0, 3 * time.Minute, 79, "waiting for a·[2J … 3m"},
		{"waiting", 0, 0, 0, 0, ""},
		{"waiting for 漢字の仕事", 0, 0, 0, 20, "waiting for 漢字の仕"},
		{"漢字の仕事", 50, 200, time.Second, 39, "漢字の仕事 [##.........] 50 of 200  25%"},
	} {
		if got := progressLine(c.what, c.done, c.total, c.passed, c.width); got != c.want {
			t.Errorf("%+v:\n got %q\nwant %q", c, got, c.want)
		}
	}
}

func TestProgressLine_IsNeverWiderThanTheTerminal(t *testing.T) {
	for width := range 120 {
		for _, total := range []int{0, 1, 10, 1 << 40} {
			for _, what := range []string{"forgetting", "waiting for 漢字の仕事", "e\u0301te\u0301"} {
				if line := progressLine(what, total/3, total, time.Hour, width); ansi.StringWidth(line) > width {
					t.Fatalf("with a total of %d it has more than %d cells: %q", total, width, line)
				}
			}
		}
	}
}

func TestProgress_IsDrawnWhenItTakesLongAndGoneAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		start := func(what string) *progress { return startProgress(&out, func() int { return 60 }, what, 1000) }
		start("quick").end()
		p := start("copying")
		drawn := func(after time.Duration, parts ...string) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if len(parts) == 0 && out.Len() > 0 {
				t.Errorf("too early it has drawn %q", &out)
			}
			for _, part := range parts {
				if !strings.Contains(out.String(), part) {
					t.Errorf("it has no %q in %q", part, &out)
				}
			}
		}
		drawn(progressQuiet - progressEvery/2)
		p.set(250)
		drawn(4*time.Second, "\rcopying [#", "250 of 1000  25%", " left\x1b[K")
		(&app{}).say(p, "by the way")
		drawn(2*progressEvery, "\r\x1b[Kby the way\n\rcopying")
		p.next("copying again", 10)
		p.set(9)
		drawn(2*progressEvery, "copying again [", "9 of 10  90%")
		p.end()
		if got := out.String(); !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("it leaves %q", got[max(0, len(got)-80):])
		}
	})
}

func TestProgress_IsNilWithoutATerminal(t *testing.T) {
	var errs bytes.Buffer
	a := &app{err: &errs}
	p := a.newProgress("sending", 10)
	if p != nil {
		t.Error("there is one in a buffer")
	}
	p.set(3)
	p.next("more", 5)
	a.say(p, "text")
	p.end()
	if errs.String() != "text\n" {
		t.Errorf("it has written %q", errs.String())
	}
}
