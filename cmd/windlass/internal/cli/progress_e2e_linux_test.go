//go:build e2e

package cli

import (
	"strings"
	"testing"
	"time"
)

func TestProgress_IsDrawnOnATerminalUnlessQuiet(t *testing.T) {
	ours, theirs := openPTY(t, 40)
	t.Setenv("TERM", "dumb")
	if p := (&app{err: theirs}).newProgress("sending", 10); p != nil {
		p.end()
		t.Error("there is one on a terminal that cannot take a line away")
	}
	t.Setenv("TERM", "xterm")
	if p := (&app{err: theirs, quiet: true}).newProgress("sending", 10); p != nil {
		p.end()
		t.Error("--quiet does not keep it quiet")
	}
	p := (&app{err: theirs}).newProgress("sending", 10)
	p.set(5)
	seen, chunk := "", make([]byte, 4096)
	for end := time.Now().Add(30 * time.Second); !strings.Contains(seen, "\x1b[K") && time.Now().Before(end); {
		n, err := ours.Read(chunk)
		if err != nil {
			t.Fatal(err)
		}
		seen += string(chunk[:n])
	}
	p.end()
	if !strings.HasPrefix(seen, "\rsending [########........] 5 of 10  50%\x1b[K") {
		t.Errorf("it has drawn %q", seen)
	}
	for _, sign := range []string{"\x1b[3", "\x1b[1", "\x1b[9"} {
		if strings.Contains(seen, sign) {
			t.Errorf("it has colours: %q", seen)
		}
	}
}
