package tree

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/windlass-go/windlass"
)

// sample has every status, and everything that is said beside it.
func sample() *Forest {
	return NewForest([]JobInfo{
		job("request_alpha", windlass.StatusCompleted, ran(0, 3.21), on("n1")),
		job("request_alpha/download_alpha", windlass.StatusRunning, claimed(5), on("n1")),
		job("request_alpha/download_alpha/process_alpha", windlass.StatusBlocked, blockedBy("request_alpha|download_alpha")),
		job("request_alpha/download_alpha/report_alpha", windlass.StatusBlocked,
			blockedBy("request_alpha|download_alpha", "table_beta|rows_beta", "x", "y")),
		job("request_alpha/index_alpha", windlass.StatusFailed, ran(4, 16), on("n2"), errored("first", "\n cannot open the file\n  at line 7")),
		job("request_alpha/index_alpha/search_alpha", windlass.StatusBlocked),
		job("request_alpha/index_alpha/search_alpha/rank_alpha", windlass.StatusPending),
		job("request_alpha/mail_alpha", windlass.StatusKilled, ran(4, 3700), because("index_alpha failed")),
		job("table_beta", windlass.StatusSleeping, on("n3"), func(j *JobInfo) { j.Until = after(600) }),
		job("table_beta/rows_beta", windlass.StatusPaused, on("n3"), claimed(1)),
		job("table_beta/sums_beta", windlass.StatusFault, on("n3"), errored("unreadable spec")),
		job("was_pruned/odd_gamma", "stalled"),
		job("was_pruned/stuck_gamma", windlass.StatusBlocked, because("its need x failed"), blockedBy("x")),
		job("was_pruned/stuck_gamma/below_gamma", windlass.StatusBlocked),
	})
}

func drawn(t testing.TB, f *Forest, o DrawOptions) string {
	t.Helper()
	var b strings.Builder
	if err := f.Draw(&b, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestDraw_Z09_ShowsTheTreeAsItIs(t *testing.T) {
	for _, c := range []struct {
		name string
		o    DrawOptions
		want string
	}{
		{"with the time", DrawOptions{Now: *after(100)}, `
✓ request  alpha  completed in 3.2s
├─ ● download  alpha  running on n1 for 1m35s
│  ├─ ◌ process  alpha  blocked
│  └─ ◌ report  alpha  blocked, waits for table_beta/rows_beta and 2 more
├─ ✗ index  alpha  failed after 12s: cannot open the file
│  └─ ◌ search  alpha  blocked for good: index_alpha failed
│     └─ ○ rank  alpha  pending
└─ ⊘ mail  alpha  killed after 1h2m: index_alpha failed
☾ table  beta  sleeping on n3 until 2026-03-01 12:10:00Z
├─ ‖ rows  beta  paused on n3
└─ ! sums  beta  fault on n3: unreadable spec
· was  pruned  not queued
├─ ? odd  gamma  stalled
└─ ◌ stuck  gamma  blocked for good, waits for x: its need x failed
   └─ ◌ below  gamma  blocked for good: stuck_gamma is blocked for good
`},
		{"in ASCII, without the time", DrawOptions{ASCII: true}, `
[c] request  alpha  completed in 3.2s
|- [r] download  alpha  running on n1
|  |- [b] process  alpha  blocked
|  ^- [b] report  alpha  blocked, waits for table_beta/rows_beta and 2 more
|- [f] index  alpha  failed after 12s: cannot open the file
|  ^- [b] search  alpha  blocked for good: index_alpha failed
|     ^- [p] rank  alpha  pending
^- [k] mail  alpha  killed after 1h2m: index_alpha failed
[s] table  beta  sleeping on n3 until 2026-03-01 12:10:00Z
|- [=] rows  beta  paused on n3
^- [!] sums  beta  fault on n3: unreadable spec
[.] was  pruned  not queued
|- [?] odd  gamma  stalled
^- [b] stuck  gamma  blocked for good, waits for x: its need x failed
   ^- [b] below  gamma  blocked for good: stuck_gamma is blocked for good
`},
		{"two levels", DrawOptions{Depth: 2}, `
✓ request  alpha  completed in 3.2s
├─ ● download  alpha  running on n1
│  └─ … 2 more below: 2 blocked
├─ ✗ index  alpha  failed after 12s: cannot open the file
│  └─ … 2 more below: 1 pending, 1 blocked, 1 of them for good
└─ ⊘ mail  alpha  killed after 1h2m: index_alpha failed
☾ table  beta  sleeping on n3 until 2026-03-01 12:10:00Z
├─ ‖ rows  beta  paused on n3
└─ ! sums  beta  fault on n3: unreadable spec
· was  pruned  not queued
├─ ? odd  gamma  stalled
└─ ◌ stuck  gamma  blocked for good, waits for x: its need x failed
   └─ … 1 more below: 1 blocked, 1 of them for good
`},
		{"one level, in colours", DrawOptions{Depth: 1, Color: true}, `
ESC[32m✓ESC[0m request  alpha  ESC[32mcompletedESC[0m in 3.2s
└─ … 7 more below: 1 failed, 1 killed, 1 running, 1 pending, 3 blocked, 1 of them for good
ESC[34m☾ESC[0m table  beta  ESC[34msleepingESC[0m on n3 until 2026-03-01 12:10:00Z
└─ … 2 more below: 1 paused, 1 fault
ESC[90m·ESC[0m was  pruned  ESC[90mnot queuedESC[0m
└─ … 3 more below: 2 blocked, 1 of another status, 2 of them for good
`},
		{"one child each", DrawOptions{ChildrenMax: 1}, `
✓ request  alpha  completed in 3.2s
├─ ✗ index  alpha  failed after 12s: cannot open the file
│  └─ ◌ search  alpha  blocked for good: index_alpha failed
│     └─ ○ rank  alpha  pending
└─ … 2 more, 4 with all below: 1 killed, 1 running, 2 blocked
… 2 more, 7 with all below: 1 sleeping, 1 paused, 1 fault, 2 blocked, 1 not queued, 1 of another status, 2 of them for good
`},
		{"in 40 columns", DrawOptions{Width: 40, Depth: 2}, `
✓ request  alpha  completed in 3.2s
├─ ● download  alpha  running on n1
│  └─ … 2 more below: 2 blocked
├─ ✗ index  alpha  failed after 12s: ca…
│  └─ … 2 more below: 1 pending, 1 bloc…
└─ ⊘ mail  alpha  killed after 1h2m: in…
☾ table  beta  sleeping on n3 until 202…
├─ ‖ rows  beta  paused on n3
└─ ! sums  beta  fault on n3: unreadabl…
· was  pruned  not queued
├─ ? odd  gamma  stalled
└─ ◌ stuck  gamma  blocked for good, wa…
   └─ … 1 more below: 1 blocked, 1 of t…
`},
	} {
		// Neither can stand in a raw string or be seen in an editor.
		want := strings.NewReplacer("^-", "`-", "ESC", "\x1b").Replace(c.want)
		if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), drawn(t, sample(), c.o)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestDraw_Z09_APartIsDrawnAsATreeOfItsOwn(t *testing.T) {
	want := `✗ index  alpha  failed after 12s: cannot open the file
└─ ◌ search  alpha  blocked for good: index_alpha failed
   └─ … 1 more below: 1 pending
`
	if diff := cmp.Diff(want, drawn(t, sample().Subtree("request_alpha/index_alpha"), DrawOptions{Depth: 2})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// What is above is not drawn, but it is still known why nothing runs.
	want = "◌ search  alpha  blocked for good: index_alpha failed\n└─ ○ rank  alpha  pending\n"
	if diff := cmp.Diff(want, drawn(t, sample().Subtree("request_alpha/index_alpha/search_alpha"), DrawOptions{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDraw_Z09_OfTenThousandChildrenThoseWithMostToSeeComeFirst(t *testing.T) {
	jobs := many("a_t", 10_000, func(i int) windlass.Status {
		switch {
		case i == 9_500:
			return windlass.StatusFailed
		case i == 9_400:
			return windlass.StatusRunning
		case i < 9_000:
			return windlass.StatusCompleted
		}
		return windlass.StatusPending
	})
	jobs = append(jobs, job("a_t", windlass.StatusCompleted), job("a_t/job00003_t/x_t", windlass.StatusFault))
	f := NewForest(jobs)
	want := `✓ a  t  completed
├─ ✗ job09500  t  failed
├─ ✓ job00003  t  completed
│  └─ ! x  t  fault
├─ ● job09400  t  running
├─ ○ job09000  t  pending
└─ … 9,996 more: 8,999 completed, 997 pending
`
	if diff := cmp.Diff(want, drawn(t, f, DrawOptions{ChildrenMax: 4})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, c := range []struct{ max, lines int }{{0, ChildrenShownMax + 3}, {1, 3}, {9_999, 10_002}, {10_000, 10_002}, {-1, 10_002}} {
		if got := strings.Count(drawn(t, f, DrawOptions{ChildrenMax: c.max}), "\n"); got != c.lines {
			t.Errorf("with at most %d children it has %d lines, want %d", c.max, got, c.lines)
		}
	}
	roots := drawn(t, NewForest(many("", 10_000, always(windlass.StatusPending))), DrawOptions{})
	if !strings.HasSuffix(roots, "\n… 9,980 more: 9,980 pending\n") {
		t.Errorf("ten thousand roots end with %q", roots[len(roots)-60:])
	}
}

func TestDraw_Z09_AHundredThousandJobsInAllDepthsTakeOneLineEach(t *testing.T) {
	const chains, levels = 1_600, 64
	jobs := make([]JobInfo, 0, chains*levels)
	for c := range chains {
		path := Path("").Child(fmt.Sprintf("root%04d", c), "t")
		for range levels {
			jobs = append(jobs, job(path, windlass.StatusBlocked))
			path = path.Child("a", "t")
		}
	}
	f := NewForest(jobs)
	if got := strings.Count(drawn(t, f, DrawOptions{ChildrenMax: -1, Width: 200}), "\n"); got != chains*levels {
		t.Errorf("it has %d lines, want %d", got, chains*levels)
	}
	if got := strings.Count(drawn(t, f, DrawOptions{ChildrenMax: -1, Depth: 3}), "└─ … 61 more below: 61 blocked\n"); got != chains {
		t.Errorf("it sums up %d times, want %d", got, chains)
	}
}

var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

// checkDrawing holds a drawing to what is promised of every one.
func checkDrawing(t testing.TB, text string, o DrawOptions) {
	t.Helper()
	if o.Color {
		text = colours.ReplaceAllString(text, "")
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); o.Width > 0 && n > o.Width {
			t.Errorf("%+v: a line has %d runes: %q", o, n, line)
		}
		for _, r := range line {
			if !unicode.IsPrint(r) || o.ASCII && r >= utf8.RuneSelf {
				t.Errorf("%+v: it prints %q: %q", o, r, line)
			}
		}
		if !utf8.ValidString(line) {
			t.Errorf("%+v: it is not UTF-8: %q", o, line)
		}
	}
}

func TestDraw_Z09_LinesAreCutToTheWidthInWhateverColours(t *testing.T) {
	for width := range 100 {
		for _, o := range []DrawOptions{{Width: width}, {Width: width, ASCII: true}, {Width: width, Color: true, Depth: 2}} {
			text := drawn(t, sample(), o)
			checkDrawing(t, text, o)
			plain := o
			plain.Color = false
			if got := colours.ReplaceAllString(text, ""); got != drawn(t, sample(), plain) {
				t.Errorf("%+v: without its colours it is\n%s", o, got)
			}
		}
	}
}

func TestDraw_Z09_NothingIsSaidToTheTerminalByAName(t *testing.T) {
	const evil = "a\x1b[2J\a\u202eb\xff\u2028ü"
	f := NewForest([]JobInfo{
		job(evil+"_t", windlass.StatusFailed, errored(evil)),
		job("run_t", windlass.StatusRunning, on(evil)),
		job("wait_"+evil, windlass.StatusBlocked, blockedBy(evil), because(evil)),
		job("noSegment"+evil, evil),
		job("//", windlass.StatusPending),
		job("/x_t", windlass.StatusPending),
	})
	for _, o := range []DrawOptions{{}, {Color: true}, {ASCII: true}, {Width: 20}} {
		checkDrawing(t, drawn(t, f, o), o)
	}
	if text := drawn(t, f, DrawOptions{}); !strings.Contains(text, `failed: a\x1b[2J\a\u202eb\xff\u2028ü`) {
		t.Errorf("it is drawn as\n%s", text)
	}
	if text := drawn(t, f, DrawOptions{ASCII: true}); !strings.Contains(text, `\u2028\u00fc`) {
		t.Errorf("in ASCII it is drawn as\n%s", text)
	}
}

func TestDraw_Z09_OfAnErrorTheFirstLineIsShownUpToSixtyRunes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"no", ": no"},
		{" \r\n no \r\nmore", ": no"},
		{strings.Repeat("ä", 60), ": " + strings.Repeat("ä", 60)},
		{strings.Repeat("ä", 61), ": " + strings.Repeat("ä", 59) + "…"},
		{strings.Repeat("\x00", 60), ": " + strings.Repeat(`\x00`, 14) + `\x0…`},
	} {
		text := drawn(t, NewForest([]JobInfo{job("a_t", windlass.StatusFailed, errored("older", c.text))}), DrawOptions{})
		if want := "✗ a  t  failed" + c.want + "\n"; text != want {
			t.Errorf("%q is drawn as %q, want %q", c.text, text, want)
		}
	}
}

func TestDraw_Z09_TimesAreToldAsFarAsTheyMakeSense(t *testing.T) {
	for _, c := range []struct {
		job  JobInfo
		want string
	}{
		{job("a_t", windlass.StatusCompleted, ran(0, 0)), "completed in 0s"},
		{job("a_t", windlass.StatusCompleted, ran(0, 0.0254)), "completed in 25ms"},
		{job("a_t", windlass.StatusCompleted, ran(0, 59.97)), "completed in 1m"},
		{job("a_t", windlass.StatusCompleted, ran(0, 125.4)), "completed in 2m5s"},
		{job("a_t", windlass.StatusCompleted, ran(0, 7200)), "completed in 2h"},
		{job("a_t", windlass.StatusCompleted, ran(0, 36000)), "completed in 10h"},
		{job("a_t", windlass.StatusCompleted, ran(0, 600)), "completed in 10m"},
		{job("a_t", windlass.StatusCompleted, ran(5, 4)), "completed"},
		{job("a_t", windlass.StatusCompleted, claimed(5)), "completed"},
		{job("a_t", windlass.StatusKilled), "killed"},
		{job("a_t", windlass.StatusRunning, claimed(40)), "running for 10s"},
		{job("a_t", windlass.StatusRunning, claimed(60)), "running"},
		{job("a_t", windlass.StatusSleeping), "sleeping"},
		{job("a_t", windlass.StatusCompleted, because("it was skipped before")), "completed"},
	} {
		kind := lookOf(c.job.Status)
		text := drawn(t, NewForest([]JobInfo{c.job}), DrawOptions{Now: *after(50)})
		if want := looks[kind].mark + " a  t  " + c.want + "\n"; text != want {
			t.Errorf("it is drawn as %q, want %q", text, want)
		}
	}
}

// full is a writer that takes so many bytes.
type full struct{ room int }

func (w *full) Write(p []byte) (int, error) {
	if len(p) > w.room {
		return 0, io.ErrShortWrite
	}
	w.room -= len(p)
	return len(p), nil
}

func TestDraw_Z09_WhatCannotBeWrittenIsAnError(t *testing.T) {
	f := NewForest(many("", 10_000, always(windlass.StatusPending)))
	for _, room := range []int{0, 5_000} {
		if err := f.Draw(&full{room}, DrawOptions{ChildrenMax: -1}); !errors.Is(err, io.ErrShortWrite) {
			t.Errorf("drawing on %d bytes: %v", room, err)
		}
	}
}

func FuzzDraw(f *testing.F) {
	f.Add("a_t/b_t", "a_t", "running", "error\nmore", 0, 0, 20)
	f.Add("a_\x1b/_", "", "\xff", "\u202e", -1, 1, 2)
	f.Fuzz(func(t *testing.T, path, other, status, text string, children, depth, width int) {
		forest := NewForest([]JobInfo{
			job(Path(path), windlass.Status(status), errored(text), because(text), on(text), blockedBy(text, other)),
			job(Path(other), windlass.StatusFailed, errored(text)),
		})
		for _, ascii := range []bool{false, true} {
			o := DrawOptions{ASCII: ascii, ChildrenMax: children, Depth: depth, Width: width}
			checkDrawing(t, drawn(t, forest, o), o)
		}
	})
}

func BenchmarkDraw(b *testing.B) {
	f := NewForest(many("a_t", 100_000, always(windlass.StatusPending)))
	for b.Loop() {
		if err := f.Draw(io.Discard, DrawOptions{ChildrenMax: -1}); err != nil {
			b.Fatal(err)
		}
	}
}
