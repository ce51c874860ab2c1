package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/windlass-go/windlass"
)

func TestFrame_AtSeveralSizes(t *testing.T) {
	for _, size := range []struct{ width, height int }{{80, 24}, {120, 14}, {40, 9}, {20, 6}} {
		t.Run(fmt.Sprintf("%dx%d", size.width, size.height), func(t *testing.T) {
			s := full(t, size.width, size.height)
			s.golden(fmt.Sprintf("tasks-%dx%d", size.width, size.height))
			s.press("2")
			s.golden(fmt.Sprintf("nodes-%dx%d", size.width, size.height))
			s.press("3")
			s.golden(fmt.Sprintf("elections-%dx%d", size.width, size.height))
			s.press("4")
			s.put(update{changes: noChanges(), at: noon, since: noon.Add(-time.Minute), forest: forest()})
			s.golden(fmt.Sprintf("jobs-%dx%d", size.width, size.height))
			s.press("1", "?")
			s.golden(fmt.Sprintf("help-%dx%d", size.width, size.height))
		})
	}
}

func TestFrame_FillsTheTerminalExactly(t *testing.T) {
	for name, keys := range map[string][]string{
		"tasks": {"1"}, "nodes": {"2"}, "elections": {"3"}, "jobs": {"4"}, "help": {"?"}, "filter": {"/", "a", "漢"}, "pausing": {"z", "9"},
		"confirming": {"p"}, "detail": {"enter"}, "nothing": {"/", "~", "enter"},
	} {
		for width := 1; width <= 100; width++ {
			for _, height := range []int{1, 2, 3, 5, 8, 11, 12, 24} {
				s := full(t, width, height)
				s.put(update{changes: noChanges(), at: noon, forest: forest(), trouble: errors.New("the broker is\n away\x1b[2J")})
				s.press(keys...)
				lines := strings.Split(s.m.frame(), "\n")
				if len(lines) != height {
					t.Fatalf("%s at %dx%d has %d lines", name, width, height, len(lines))
				}
				for _, line := range lines {
					if w := ansi.StringWidth(line); w > width {
						t.Fatalf("%s at %dx%d has a line of %d cells: %q", name, width, height, w, line)
					}
				}
			}
		}
	}
}

func TestFrame_NamesCannotMoveTheCursor(t *testing.T) {
	for _, keys := range [][]string{{"1"}, {"2"}, {"3"}, {"4"}, {"down", "down", "down", "p"}, {"down", "down", "down", "enter"}} {
		s := full(t, 100, 24)
		s.put(update{changes: noChanges(), at: noon, forest: forest(), trouble: errors.New("\x1b]52;c;x\x07")})
		s.press(keys...)
		if frame := s.plain(); strings.ContainsFunc(frame, func(r rune) bool { return unicode.IsControl(r) && r != '\n' }) {
			t.Errorf("after %q the frame is %q", keys, frame)
		}
	}
}

// The filter of the command line was echoed as it was given.
func TestFrame_TheFilterOfTheCommandLineCannotMoveTheCursor(t *testing.T) {
	s := full(t, 60, 12)
	s.m.cluster.setFilter("a\x1b[2J\nb\u009b2J")
	s.press("/")
	frame := s.m.frame()
	if lines := strings.Count(frame, "\n") + 1; lines != 12 || strings.ContainsAny(frame, "\u009b") || strings.Contains(frame, "\x1b[2J") {
		t.Errorf("in %d lines it says %q", lines, frame)
	}
	s.has("filter: a·[2J·b·2J")
}

func TestTasks_AreSortedByEachColumn(t *testing.T) {
	s := full(t, 100, 24)
	firsts := map[Column]string{}
	for range Columns {
		firsts[s.m.cluster.column] = s.m.cluster.shown[0].ID
		s.press("s")
	}
	want := map[Column]string{ByID: "alpha", ByStatus: "漢字の仕事", ByNode: "beta", ByAge: "漢字の仕事", ByErrors: "delta\x1b[2J\n"}
	if diff := cmp.Diff(want, firsts); diff != "" {
		t.Errorf("the first by each column (-want +got):\n%s", diff)
	}
	s.has("ID▼")
	s.press("S")
	s.has("ID▲")
	if last := s.m.cluster.shown[len(s.m.cluster.shown)-1].ID; last != "alpha" {
		t.Errorf("the other way round the last is %q", last)
	}
}

func TestTasks_AreFilteredOnEachKey(t *testing.T) {
	s := full(t, 100, 24)
	s.press("/", "G", "A", "M")
	s.has("filter: GAM", "gamma")
	s.hasNot("alpha", "beta")
	s.press("backspace", "backspace", "backspace", "p", "a", "u", "enter")
	s.has("beta", "1 of 6")
	s.hasNot("gamma", "filter: ")
	s.press("esc")
	s.has("alpha", "beta", "gamma")
	s.press("/", "x", "y", "ctrl+u", "q") // q is a letter there
	s.has("no task has that")
	s.press("esc")
	s.has("alpha")
}

func TestCursor_StaysOnItsTask(t *testing.T) {
	s := full(t, 100, 24)
	s.press("down", "down") // on delta
	s.press("down")         // on gamma
	if got := s.m.selected(); got != "gamma" {
		t.Fatalf("the cursor is on %q", got)
	}
	more := []windlass.TaskInfo{taskOf("gamma", windlass.StatusSleeping, "n2", 90, 1)}
	for i := range 50 {
		more = append(more, taskOf(fmt.Sprintf("aa%02d", i), windlass.StatusPending, "", 5, 0))
	}
	s.put(update{changes: changed(more...), at: noon})
	s.has("> gamma", "sleeping")
	gone := noChanges()
	gone.tasks["gamma"] = windlass.TaskChange{Task: windlass.TaskInfo{ID: "gamma"}, Gone: true}
	s.put(update{changes: gone, at: noon})
	if got := s.m.selected(); got == "" || got == "gamma" {
		t.Errorf("when its task has gone, the cursor is on %q", got)
	}
	s.press("home")
	if got := s.m.selected(); got != "aa00" {
		t.Errorf("at home the cursor is on %q", got)
	}
	s.press("end")
	s.has("> 漢字の仕事")
}

func TestActions_RequireAYes(t *testing.T) {
	questions := map[string][]string{
		"pause alpha? [y/N]": {"p"}, "run alpha? [y/N]": {"r"}, "kill alpha? [y/N]": {"x"}, "release alpha? [y/N]": {"l"},
		"sleep alpha for 1m30s? [y/N]": {"z", "9", "0", "s", "enter"},
		"freeze n1? [y/N]":             {"2", "f"}, "unfreeze n1? [y/N]": {"2", "u"}, "drain n1? [y/N]": {"2", "d"}, "balance n1? [y/N]": {"2", "b"},
		"cordon n1? [y/N]": {"2", "c"}, "uncordon n1? [y/N]": {"2", "C"},
		"resign the leader of reports? [y/N]": {"3", "R"},
	}
	for question, keys := range questions {
		for _, answer := range []string{"n", "enter", "esc", "q", "p"} {
			s := full(t, 100, 24)
			if command := s.press(keys...); command != nil {
				t.Errorf("%q does something before the answer", keys)
			}
			s.has(question)
			if command := s.press(answer); command != nil {
				t.Errorf("%s %s does something", question, answer)
			}
			s.has("nothing was done")
		}
		s := full(t, 100, 24)
		s.press(keys...)
		if command := s.press("y"); command == nil {
			t.Errorf("%s y does nothing", question)
		}
	}
}

func TestActions_KeepTheirTargetWhileTheListChanges(t *testing.T) {
	s := full(t, 100, 24)
	s.press("p")
	first := changed(taskOf("aaa", windlass.StatusRunning, "n1", 1, 0))
	first.tasks["alpha"] = windlass.TaskChange{Task: windlass.TaskInfo{ID: "alpha"}, Gone: true}
	s.put(update{changes: first, at: noon})
	s.has("pause alpha? [y/N]")
}

func TestActions_RefuseBadInput(t *testing.T) {
	s := full(t, 100, 24)
	s.press("z", "-", "5", "s", "enter")
	s.has(`FAILED "-5s": must be a duration above zero`)
	s.press("z", "esc")
	s.has("nothing was done")
	empty := newScreen(t, 100, 24)
	empty.press("p")
	empty.has("there is nothing to pause")
}

func TestQuestion_CutsOnlyTheName(t *testing.T) {
	s := full(t, 24, 10)
	s.press("/", "l", "o", "n", "g", "enter", "x")
	s.has("kill long-", "…? [y/N]")
}

func TestTrouble_IsShownAboveTheLastKnownState(t *testing.T) {
	s := full(t, 80, 24)
	s.has("live since 11:59:00")
	s.put(update{changes: noChanges(), at: noon.Add(time.Second), since: noon, trouble: errors.New("no route")})
	s.has("TROUBLE since 12:00:00: no route", "alpha")
	s.hasNot("live since")
	s.m.Update(tea.WindowSizeMsg{Width: 60, Height: 5})
	s.has("TROUBLE since 12:00:00: no route")
}

func TestTree_IsFollowedOnlyWhileShown(t *testing.T) {
	s := full(t, 80, 24)
	s.press("shift+tab")
	if !s.tree {
		t.Error("the tree is shown, and not followed")
	}
	s.press("tab")
	if s.tree {
		t.Error("the tree is not shown, and followed")
	}
}

func TestQuit_ByQAndByAnInterrupt(t *testing.T) {
	for _, keys := range [][]string{{"q"}, {"ctrl+c"}, {"/", "ctrl+c"}, {"?", "ctrl+c"}, {"p", "ctrl+c"}, {"?", "q", "q"}} {
		s := full(t, 80, 24)
		command := s.press(keys...)
		if command == nil {
			t.Fatalf("%q does not quit", keys)
		}
		if _, ok := command().(tea.QuitMsg); !ok {
			t.Errorf("%q does not quit", keys)
		}
	}
	s := full(t, 80, 24)
	if command := s.press("ctrl+z"); command == nil || command() != (tea.SuspendMsg{}) {
		t.Error("ctrl+z does not suspend")
	}
}

func TestConfig_RefusesBadInput(t *testing.T) {
	if err := (Config{Refresh: RefreshDefault, Column: ByAge}).Check(); err != nil {
		t.Error(err)
	}
	for want, c := range map[string]Config{
		"refresh 1ms: must be between 50ms and 1m0s": {Refresh: time.Millisecond, Column: ByID},
		`sort "size": must be one of`:                {Refresh: time.Second, Column: "size"},
		"filter of 201 bytes: must have at most 200": {Refresh: time.Second, Column: ByID, Filter: strings.Repeat("x", 201)},
	} {
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
}
