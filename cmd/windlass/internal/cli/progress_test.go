package cli

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"
)

func TestProgressLine_SaysWhatThereIsRoomFor(t *testing.T) {
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
				line := progressLine(what, total/3, total, time.Hour, width)
				if n := ansi.StringWidth(line); n > width {
					t.Fatalf("with %d of %d cells it has %d: %q", total, width, n, line)
				}
			}
		}
	}
}

func TestProgress_IsDrawnWhenItTakesLongAndGoneAfterwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		p := startProgress(&out, func() int { return 60 }, "copying", 1000)
		time.Sleep(progressQuiet - progressEvery/2)
		if out.text() != "" {
			t.Errorf("too early it has drawn %q", out.text())
		}
		p.set(250)
		time.Sleep(4 * time.Second)
		if got := out.text(); !strings.Contains(got, "\rcopying [#") || !strings.Contains(got, "250 of 1000  25%") || !strings.Contains(got, " left\x1b[K") {
			t.Errorf("it has drawn %q", got)
		}
		(&app{}).say(p, "by the way")
		time.Sleep(2 * progressEvery)
		p.next("copying again", 10)
		p.set(9)
		time.Sleep(2 * progressEvery)
		p.end()
		got := out.text()
		for _, want := range []string{"\r\x1b[Kby the way\n\rcopying", "copying again [", "9 of 10  90%"} {
			if !strings.Contains(got, want) {
				t.Errorf("it has no %q in %q", want, got)
			}
		}
		if !strings.HasSuffix(got, "\r\x1b[K") {
			t.Errorf("it leaves %q", got[max(0, len(got)-80):])
		}
	})
}

func TestProgress_OfWhatIsQuickIsNeverSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lockedBuffer
		p := startProgress(&out, func() int { return 80 }, "sending", 10)
		p.set(10)
		p.end()
		if out.text() != "" {
			t.Errorf("it has drawn %q", out.text())
		}
	})
}

func TestProgress_IsNoneWhereThereIsNoTerminal(t *testing.T) {
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

// lockedBuffer is written by one goroutine and read by another.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
