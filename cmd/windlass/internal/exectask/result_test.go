package exectask

import (
	"strings"
	"testing"
	"time"
)

func TestResult_SaysWhatOutlivedTheProgram(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: ", and 1 process that outlived it was ended", 2: ", and 2 processes that outlived it were ended"} {
		if got := (Result{Why: WhyExited, Duration: time.Second, Outlived: n}).String(); got != "exited: exit code 0 after 1s"+want {
			t.Errorf("%d: %q", n, got)
		}
	}
}

func TestResult_AFailureHasTheLastLineThatWasPrinted(t *testing.T) {
	const end = "exited: exit code 3 after 2s"
	for output, want := range map[string]string{
		"":                            end,
		" \n\n":                       end,
		"no route to host\n":          end + ": no route to host",
		"trying\r\nno route\r\n\r\n":  end + ": no route",
		"\x1b[31mred\x07":             end + ": ·[31mred·",
		"\xffbroken":                  end + ": ·broken",
		strings.Repeat("x", 300):      end + ": " + strings.Repeat("x", 256) + "…",
		"first\nsecond\n  indented\n": end + ": indented",
	} {
		r := Result{Why: WhyExited, Code: 3, Duration: 2 * time.Second, Output: []byte(output)}
		if got := r.Err().Error(); got != want {
			t.Errorf("%q: %q, want %q", output, got, want)
		}
	}
}
