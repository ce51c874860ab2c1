package cli

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/session"
)

func TestSurvived_O02_TheNextProcessKnowsWhatEndedBeforeItsProcess(t *testing.T) {
	dir := t.TempDir()
	var warned bytes.Buffer
	var told []string
	start := func(want string) (*survived, events.Node) {
		t.Helper()
		s := readSurvived(dir, slog.New(slog.NewTextHandler(&warned, nil)))
		if got := strings.Join(s.names, " "); got != want {
			t.Errorf("known as survived are %q, want %q", got, want)
		}
		return s, s.events(events.Node{
			Joined: func(name string, _ session.Timing) { told = append(told, "joined "+name) },
			Left:   func(name string, _ error, _ []string) { told = append(told, "left "+name) },
		})
	}

	_, events := start("")
	events.Joined("killed", session.Timing{})

	s, events := start("")
	s.note() // it has not joined
	for _, name := range []string{"a", "b"} {
		events.Joined(name, session.Timing{})
		events.Left(name, nil, nil)
		s.note()
	}
	s.note()
	if got := strings.Join(told, ", "); got != "joined killed, joined a, left a, joined b, left b" {
		t.Errorf("told of %q", got)
	}

	events.Joined("c", session.Timing{})
	events.Left("c", nil, nil)
	events.Joined("live", session.Timing{}) // before that is written
	s.write()

	s, events = start("a b c")
	for i := range survivedKept - 1 {
		events.Joined(fmt.Sprint(i), session.Timing{})
		s.note() // at its deadline
	}
	start("c 0 1 2 3 4 5 6")

	if warned.Len() > 0 {
		t.Errorf("warnings: %s", warned.String())
	}
	path := filepath.Join(dir, survivedFile)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	s, events = start("")
	events.Joined("c", session.Timing{})
	s.note()
	if got := strings.Count(warned.String(), "a death may be counted"); got != 2 {
		t.Errorf("warned %d times: %s", got, warned.String())
	}
}
