package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/tree"
)

func TestFit_KeepsTheHeadAndTheSummary(t *testing.T) {
	drawn := "a\nb\nc\nd\n\nsum\n"
	for lines, want := range map[int]string{
		0: drawn, 2: drawn, 6: drawn, 40: drawn,
		3: "a\n(4 more lines)\nsum\n", 5: "a\nb\nc\n(2 more lines)\nsum\n",
	} {
		if got := fit(drawn, lines); got != want {
			t.Errorf("in %d lines: %q, want %q", lines, got, want)
		}
	}
}

func TestSummary_SaysWhatIsKnown(t *testing.T) {
	left := 90 * time.Second
	for want, p := range map[string]tree.Progress{
		"2 job(s), 2 pending; 0.0% done": {Total: 2, Counts: map[windlass.Status]int{windlass.StatusPending: 2}},
		"8 job(s), 1 blocked, 3 running, 4 completed; 50.0% done, 0.0333/s, about 1m30s left; 1 blocked for good": {
			Total: 8, Done: 4, Percent: 50, BlockedForGood: 1, Rate: 1. / 30, Left: &left,
			Counts: map[windlass.Status]int{windlass.StatusRunning: 3, windlass.StatusCompleted: 4, windlass.StatusBlocked: 1},
		},
		"1000 job(s), 999 completed, 1 failed; 99.9% done":  {Total: 1000, Done: 999, Counts: map[windlass.Status]int{windlass.StatusCompleted: 999, windlass.StatusFailed: 1}},
		"3000 job(s), 2999 completed, 1 killed; 99.9% done": {Total: 3000, Done: 2999, Counts: map[windlass.Status]int{windlass.StatusCompleted: 2999, windlass.StatusKilled: 1}},
	} {
		if got := summary(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestConcurrency_IsParsedByTypeOrForAll(t *testing.T) {
	var c concurrency
	for _, text := range []string{"3", "exec=2", "a=b=7", "exec=4"} {
		if err := c.Set(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if len(c) != 3 || c[windlass.AnyType] != 3 || c["exec"] != 4 || c["a=b"] != 7 {
		t.Errorf("%v", map[string]int(c))
	}
	for _, text := range []string{"", "0", "-1", "exec=", "=", "exec", "exec=1.5", "1000001", "exec=" + strings.Repeat("9", 40)} {
		if err := c.Set(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestJobID_AcceptsPathsAndOtherTasks(t *testing.T) {
	for text, want := range map[string]string{"a_t/b_t": "a_t|b_t", "/a_t": "a_t", "a_t|b_t": "a_t|b_t", "plain": "plain"} {
		if got, err := jobID(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a/b", "a_t/", "_x"} {
		if got, err := jobID(text); err == nil {
			t.Errorf("%q was taken for %q", text, got)
		}
	}
}
