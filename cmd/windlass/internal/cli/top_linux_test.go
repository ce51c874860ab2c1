package cli

import (
	"strings"
	"testing"

	"github.com/windlass-go/windlass/cmd/windlass/internal/top"
)

func TestTop_NeedsATerminalThatCanMoveItsCursor(t *testing.T) {
	_, theirs := openPTY(t, 80)
	a := &app{in: theirs, out: theirs}
	f := topFlags{Config: top.Config{Refresh: top.RefreshDefault, Column: top.ByID}, limit: top.TasksDefault}
	t.Setenv("TERM", "xterm")
	if err := a.checkTop(a.topCommand(), &f); err != nil {
		t.Errorf("on a terminal: %v", err)
	}
	t.Setenv("TERM", "dumb")
	if err := a.checkTop(a.topCommand(), &f); !is[usageError](err) || !strings.Contains(err.Error(), "TERM not dumb") {
		t.Errorf("on a dumb one: %v", err)
	}
}
