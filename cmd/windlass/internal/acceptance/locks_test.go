//go:build e2e && linux

package acceptance

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// locksFolder is where in a world the locks of tasks are.
const locksFolder = "locks"

// locked is a command that first takes the lock of its task, an flock, which its processes
// keep until the last of them has ended. A run that finds it taken says so and goes on:
// something of another run lives. The census, which looks from time to time, may miss that.
func (w *world) locked(script string) []string {
	const lock = `exec 9>>"$0/$WINDLASS_TASK"; flock -n 9 || echo "$WINDLASS_TASK" >>"$0/taken"; `
	return []string{"sh", "-c", lock + script, w.path(locksFolder)}
}

// taken lists the tasks whose lock was taken when they began.
func (w *world) taken() []string {
	w.t.Helper()
	text, err := os.ReadFile(w.path(locksFolder, "taken"))
	if !errors.Is(err, os.ErrNotExist) {
		must(w.t, err)
	}
	return strings.Fields(string(text))
}

func TestLocks_AreKeptUntilTheLastProcessHasEnded(t *testing.T) {
	w := &world{t: t, dir: t.TempDir()}
	must(t, os.Mkdir(w.path(locksFolder), 0o700))
	run := func(task, script string) {
		t.Helper()
		argv := w.locked(script)
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "WINDLASS_TASK="+task)
		must(t, cmd.Run())
	}
	run("a", "exit 0")
	run("b", `sleep 1000000 & echo $! >"$0/pid"`)
	for range 2 {
		run("a", "exit 0")
		run("b", "exit 0")
	}
	if got := w.taken(); !slices.Equal(got, []string{"b", "b"}) {
		t.Errorf("taken: %q", got)
	}
	text, err := os.ReadFile(w.path(locksFolder, "pid"))
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	must(t, syscall.Kill(pid, syscall.SIGKILL))
}
