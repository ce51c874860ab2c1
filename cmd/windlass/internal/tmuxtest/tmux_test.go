//go:build e2e && linux

package tmuxtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-go/windlass/cmd/windlass/internal/testprogram"
)

// Times. They are generous, since only what is seen counts.
const (
	soon      = 60 * time.Second
	pollEvery = 50 * time.Millisecond
)

// program is the built windlass.
var program string

func TestMain(m *testing.M) { testprogram.Main(m, &program) }

// world is a dev with its folder, and a tmux.
type world struct {
	*testing.T
	dir string
	env []string
}

// newWorld starts a dev of three nodes.
func newWorld(t *testing.T) *world {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("there is no tmux here")
	}
	dir, err := os.MkdirTemp("/tmp", "windlass-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, dir: dir, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "XDG_RUNTIME_DIR=" + dir, "XDG_STATE_HOME=" + dir,
		"TERM=xterm-256color", "LC_ALL=C.UTF-8",
	}}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	// One session may end before the next one begins.
	if err := os.WriteFile(filepath.Join(dir, "tmux.conf"), []byte("set -s exit-empty off\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dev := w.command(program, "dev", "--nodes", "3", "--no-http", "--session-ttl", "5s")
	dev.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := dev.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = dev.Process.Signal(syscall.SIGTERM) // it may have ended, which Wait tells
		if err := dev.Wait(); err != nil {
			t.Error("dev:", err)
		}
	})
	w.eventually("three nodes", func() (string, bool) {
		out, err := w.command(program, "node", "list", "-o", "json").CombinedOutput()
		var nodes []struct{ Name string }
		return string(out), err == nil && json.Unmarshal(out, &nodes) == nil && len(nodes) == 3
	})
	t.Cleanup(func() { _ = w.tmux("kill-server").Run() }) // no test may have started it
	return w
}

func (w *world) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env, cmd.Dir = w.env, w.dir
	return cmd
}

// windlass runs a command to its end.
func (w *world) windlass(args ...string) string {
	w.Helper()
	out, err := w.command(program, args...).CombinedOutput()
	if err != nil {
		w.Fatalf("windlass %q: %v: %s", args, err, out)
	}
	return string(out)
}

func (w *world) tmux(args ...string) *exec.Cmd {
	return w.command("tmux", append([]string{"-S", filepath.Join(w.dir, "tmux"), "-f", filepath.Join(w.dir, "tmux.conf")}, args...)...)
}

func (w *world) mustTmux(args ...string) string {
	w.Helper()
	out, err := w.tmux(args...).CombinedOutput()
	if err != nil {
		w.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// open runs a line of the shell in a terminal of a size. What is drawn stays after
// its end, below which is its exit code.
func (w *world) open(width, height int, line string) {
	w.Helper()
	w.mustTmux("new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), line+`; echo "ended with $?"; exec cat`)
}

func (w *world) press(keys ...string) {
	w.Helper()
	w.mustTmux(append([]string{"send-keys"}, keys...)...)
}

// screen is what the terminal shows.
func (w *world) screen() string {
	out, err := w.tmux("capture-pane", "-p").CombinedOutput()
	if err != nil {
		return err.Error()
	}
	return string(out)
}

// shows waits until the screen matches all patterns.
func (w *world) shows(patterns ...string) {
	w.Helper()
	w.eventually(fmt.Sprintf("a screen with %q", patterns), func() (string, bool) {
		screen := w.screen()
		for _, p := range patterns {
			if !regexp.MustCompile("(?m)" + p).MatchString(screen) {
				return screen, false
			}
		}
		return screen, true
	})
}

// eventually polls until something is so; of what it was last it tells otherwise.
func (w *world) eventually(what string, is func() (last string, ok bool)) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		last, ok := is()
		if ok {
			return
		}
		select {
		case <-ctx.Done():
			w.Fatalf("not within %v: %s; the last was\n%s", soon, what, last)
		case <-poll.C:
		}
	}
}

// submit submits commands that do not end.
func (w *world) submit(prefix string, n int) {
	w.Helper()
	w.windlass("task", "submit", "-f", w.tasks(prefix, n, "sleep", "100000"))
}

// tasks is a file of tasks.
func (w *world) tasks(prefix string, n int, command ...string) string {
	w.Helper()
	var b bytes.Buffer
	for i := range n {
		line, err := json.Marshal(map[string]any{"id": fmt.Sprintf("%s%02d", prefix, i), "type": "exec", "props": map[string]any{"command": command}})
		if err != nil {
			w.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	name := filepath.Join(w.dir, prefix+".jsonl")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		w.Fatal(err)
	}
	return name
}

func TestTop_IsUsedOnARealTerminal(t *testing.T) {
	w := newWorld(t)
	w.submit("task", 12)
	w.submit("import", 3)
	w.open(100, 30, program+" top")
	w.shows("live since", "15 tasks +15 running", "> import00 ", "q quit")

	w.press("S") // the other way round
	w.shows("ID▲", `^> task11 (.|\n)*^  task10 (.|\n)*^  import00`)
	w.press("S", "s")
	w.shows("STATUS▼")
	w.press("/")
	w.shows("filter: ▏")
	w.press("i", "m", "p", "Enter")
	w.shows(`filter "imp": 3 of 15`, "import02")
	if strings.Contains(w.screen(), "task05") {
		t.Errorf("the filter selects too much:\n%s", w.screen())
	}

	w.press("g", "p")
	w.shows(`^pause import00\? \[y/N\]`)
	w.press("n")
	w.shows("nothing was done")
	w.press("p", "y")
	w.shows("pause import00: carried out; it is paused", "import00 +paused", "1 paused")
	w.eventually("a paused task", func() (string, bool) {
		out := w.windlass("task", "get", "import00", "-o", "json")
		return out, strings.Contains(out, `"status": "paused"`)
	})
	w.press("Enter")
	w.shows("^task import00", "status +paused", "^why +", "history +")
	w.press("Escape") // with a key right behind it, it would be that key with Alt
	w.shows("> import00")

	w.press("2")
	w.shows(`\[2 nodes\]`, "> dev-1 +ready", "dev-3 +ready")
	w.press("Down", "d")
	w.shows(`^drain dev-2\? \[y/N\]`)
	w.press("y")
	w.shows(`dev-2 +draining,\S+ +0 `, "drain dev-2: sent")

	w.mustTmux("resize-window", "-x", "50", "-y", "12")
	w.shows("> dev-2 +draining", `live since \d\d:\d\d:\d\d$`)
	for line := range strings.Lines(w.screen()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 50 {
			t.Errorf("in 50 columns it has a line of %d: %q", n, line)
		}
	}
	w.press("?")
	w.shows("^help")
	w.press("q")
	w.shows("dev-2 +draining")
	w.press("q")
	w.shows("^ended with 0")
}

func TestTop_HasNoColoursWithNoColor(t *testing.T) {
	w := newWorld(t)
	w.submit("task", 2)
	for variable, want := range map[string]bool{"NO_COLOR= ": true, "NO_COLOR=1 ": false} {
		w.open(80, 24, "env "+variable+program+" top")
		w.shows("2 tasks +2 running", "live since")
		coloured := regexp.MustCompile(`\x1b\[(\d+;)*(3[0-7]|9[0-7]|38;[0-9;]+)m`).MatchString(w.mustTmux("capture-pane", "-p", "-e"))
		if coloured != want {
			t.Errorf("with %sthere are colours: %v", variable, coloured)
		}
		w.press("q")
		w.shows("^ended with 0")
		w.mustTmux("kill-session")
	}
}

func TestTop_RefusesWithoutATerminal(t *testing.T) {
	w := newWorld(t)
	cmd := w.command(program, "top")
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "--once") {
		t.Errorf("it ended with %v: %s", err, out)
	}
}

// progress is one as it is drawn.
const progress = `^waiting \[[#.]+\] \d+ of 6 +\d+%`

func TestProgress_IsOnTheTerminalAndNowhereElse(t *testing.T) {
	w := newWorld(t)
	// They do not end before they are killed, so the order takes as long as they are given.
	w.windlass("task", "submit", "-f", w.tasks("task", 6, "sh", "-c", `trap "" TERM; touch `+w.dir+`/$WINDLASS_TASK; while :; do sleep 1; done`))
	w.eventually("stubborn tasks", func() (string, bool) {
		begun, err := filepath.Glob(filepath.Join(w.dir, "task0?"))
		return fmt.Sprint(begun, err), len(begun) == 6
	})
	order := program + " task pause --id-prefix task --yes --wait"
	w.open(80, 24, order)
	w.shows(progress)
	w.shows("^ended with 0", "task05 +pause +done: paused")
	if regexp.MustCompile("(?m)" + progress).MatchString(w.screen()) {
		t.Errorf("it is still there:\n%s", w.screen())
	}
	w.mustTmux("kill-session")
	w.open(80, 24, order+" 2>"+w.dir+"/errs")
	w.shows("^ended with 0")
	errs, err := os.ReadFile(filepath.Join(w.dir, "errs"))
	if err != nil || strings.ContainsAny(string(errs), "\r\x1b") {
		t.Errorf("a file gets %q, %v", errs, err)
	}
}
