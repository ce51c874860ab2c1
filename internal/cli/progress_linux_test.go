package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openPTY returns both ends of a terminal that is so wide.
func openPTY(t *testing.T, width uint16) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("there are no terminals here:", err)
	}
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(theirs.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: width})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

func TestProgress_IsDrawnOnATerminalOfItsWidthUnlessToldToBeQuiet(t *testing.T) {
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
