package top

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/statemachine"
	"github.com/windlass-go/windlass/tree"
)

var updateGolden = flag.Bool("update", false, "rewrite the golden frames")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// taskOf is a task that was submitted some seconds before noon.
func taskOf(id string, status windlass.Status, node string, seconds, errors int) windlass.TaskInfo {
	submitted := noon.Add(-time.Duration(seconds) * time.Second)
	t := windlass.TaskInfo{ID: id, Type: "poll", Status: status, Node: node, SubmittedAt: &submitted, Blocked: windlass.Blocked{BlockedBy: []string{}}}
	for i := range errors {
		t.Errors = append(t.Errors, statemachine.ErrorEntry{Error: fmt.Sprint("error ", i)})
	}
	return t
}

// changed are changes of tasks.
func changed(tasks ...windlass.TaskInfo) changes {
	c := noChanges()
	for _, t := range tasks {
		c.tasks[t.ID] = windlass.TaskChange{Task: t}
	}
	return c
}

// some are a few tasks, nodes and elections.
func some() changes {
	c := changed(
		taskOf("alpha", windlass.StatusRunning, "n1", 10, 0),
		taskOf("beta", windlass.StatusPaused, "", 7200, 2),
		taskOf("gamma", windlass.StatusRunning, "n2", 90, 0),
		taskOf("delta\x1b[2J\n", windlass.StatusFailed, "n2\x07", 86400*3, 8),
		taskOf("漢字の仕事", windlass.StatusPending, "", 1, 0),
		taskOf(strings.Repeat("long-", 60), windlass.StatusBlocked, "", 3600, 0),
	)
	for _, n := range []windlass.NodeStatus{
		{Tasks: 1, NodeInfo: windlass.NodeInfo{Name: "n1", Capacity: 4, Zone: "east", Version: "v1.2.3", StartedAt: noon.Add(-time.Hour), Load: 35}},
		{Tasks: 1, NodeInfo: windlass.NodeInfo{Name: "n2", Zone: "west\x1b", Version: "v1.2.3", StartedAt: noon.Add(-time.Minute), Draining: true, Weight: 2}},
		{NodeInfo: windlass.NodeInfo{Name: "n3", Frozen: true, StartedAt: noon}},
	} {
		c.nodes[n.Name] = windlass.NodeChange{Node: n}
	}
	c.elections["reports"] = election.LineChange{Election: election.ElectionInfo{Name: "reports", Candidates: []election.CandidateInfo{
		{Name: "n1", Token: 7}, {Name: "n2", Token: 9}, {Name: "n3\x1b]0;x\x07", Token: 12},
	}}}
	return c
}

// screen is a model with the updates that it will get.
type screen struct {
	*testing.T
	m       *model
	updates []update
	tree    bool
}

func newScreen(t *testing.T, width, height int) *screen {
	s := &screen{T: t}
	c := Config{Namespace: "/windlass", Address: "etcd://a:2379", Refresh: RefreshDefault, Column: ByID}
	s.m = c.model(func() update {
		u := update{changes: noChanges(), at: noon, since: noon.Add(-time.Minute)}
		if len(s.updates) > 0 {
			u, s.updates = s.updates[0], s.updates[1:]
		}
		return u
	}, func(on bool) { s.tree = on }, &control{ctx: t.Context()})
	s.m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	return s
}

// full has some things in it.
func full(t *testing.T, width, height int) *screen {
	s := newScreen(t, width, height)
	s.put(update{changes: some(), at: noon, since: noon.Add(-time.Minute), rates: rates{claims: []int{0, 1, 4, 0, 9, 3}, moves: []int{0, 0, 0, 0, 1, 0}}})
	return s
}

// put gives the model an update.
func (s *screen) put(u update) {
	s.updates = append(s.updates, u)
	s.m.Update(tick(u.at))
}

// press sends keys, by name or as the text that they type.
func (s *screen) press(keys ...string) (last tea.Cmd) {
	for _, k := range keys {
		_, last = s.m.Update(pressOf(k))
	}
	return last
}

var namedKeys = map[string]tea.Key{
	"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "shift+tab": {Code: tea.KeyTab, Mod: tea.ModShift},
	"up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown}, "end": {Code: tea.KeyEnd}, "home": {Code: tea.KeyHome}, "pgdown": {Code: tea.KeyPgDown},
	"backspace": {Code: tea.KeyBackspace}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}, "ctrl+z": {Code: 'z', Mod: tea.ModCtrl}, "ctrl+u": {Code: 'u', Mod: tea.ModCtrl},
}

func pressOf(name string) tea.KeyPressMsg {
	if k, ok := namedKeys[name]; ok {
		return tea.KeyPressMsg(k)
	}
	return tea.KeyPressMsg{Code: []rune(name)[0], Text: name}
}

// plain is the frame without colours.
func (s *screen) plain() string { return ansi.Strip(s.m.frame()) }

// has fails unless the frame has all of it.
func (s *screen) has(want ...string) {
	s.Helper()
	for _, w := range want {
		if !strings.Contains(s.plain(), w) {
			s.Errorf("the frame has no %q:\n%s", w, s.plain())
		}
	}
}

// hasNot fails if the frame has any of it.
func (s *screen) hasNot(unwanted ...string) {
	s.Helper()
	for _, w := range unwanted {
		if strings.Contains(s.plain(), w) {
			s.Errorf("the frame has %q:\n%s", w, s.plain())
		}
	}
}

// golden compares the frame with a file.
func (s *screen) golden(name string) {
	s.Helper()
	path := filepath.Join("testdata", name+".golden")
	var trimmed []string
	for line := range strings.SplitSeq(s.plain(), "\n") {
		trimmed = append(trimmed, strings.TrimRight(line, " "))
	}
	got := strings.Join(trimmed, "\n") + "\n"
	if *updateGolden {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			s.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		s.Errorf("%s differs (-want +got); go test ./cmd/windlass/internal/top -update rewrites it:\n%s", path, diff)
	}
}

// forest is a tree of jobs.
func forest() *tree.Forest {
	return tree.NewForest([]tree.JobInfo{
		{Path: "fetch_http", Status: windlass.StatusCompleted},
		{Path: "fetch_http/parse_json", Status: windlass.StatusRunning, Node: "n1"},
		{Path: "report_pdf", Status: windlass.StatusFailed, Errors: []statemachine.ErrorEntry{{Error: "no \x1b[31mpaper"}}},
	})
}
