//go:build e2e && linux

package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// brokerName is the name of processes that others need until they have ended.
const brokerName = "broker"

// Deadlines. They are generous: how long things took is logged, and what
// matters is that nothing overlaps and nothing is lost.
const (
	soon      = time.Minute
	patience  = 3 * time.Minute
	callLimit = 30 * time.Second
	pollEvery = 50 * time.Millisecond
)

// Exit codes of windlass.
const (
	exitFailed      = 1
	exitConflict    = 4
	exitUnavailable = 5
	exitInterrupted = 130
	exitSignalled   = -1 // what Go says of a process that a signal ended
)

// world is everything that one test starts, in a folder of its own.
type world struct {
	t       *testing.T
	dir     string
	env     []string
	census  *census
	started []*process
	// programs are what calls use in turn, nil for the present program alone. A soak draws
	// the programs of its nodes from them as well.
	programs atomic.Pointer[[]string]
	calls    atomic.Uint64
	// launches counts everything that was ever started.
	launches int
}

// process is a windlass that was started and not waited for.
type process struct {
	name   string
	cmd    *exec.Cmd
	output string        // file
	done   chan struct{} // closed when it has exited
}

func newWorld(t *testing.T) *world {
	t.Helper()
	// Not t.TempDir: its paths are too long for a socket.
	dir, err := os.MkdirTemp("/tmp", "wl-")
	must(t, err)
	w := &world{t: t, dir: dir, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"), "TMPDIR=" + filepath.Join(dir, "tmp"),
		"XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"), "XDG_STATE_HOME=" + filepath.Join(dir, "state"),
	}}
	for _, name := range []string{"home", "tmp", "run", "state", "out", locksFolder} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kept %s", dir)
			return
		}
		must(t, os.RemoveAll(dir))
	})
	// TMPDIR is among the few variables that commands get from their node.
	marker := "TMPDIR=" + filepath.Join(dir, "tmp") + "\x00"
	w.census = startCensus(t, marker)
	t.Cleanup(func() {
		w.end(marker)
		if taken := w.taken(); len(taken) > 0 {
			t.Errorf("something of another run still had the lock of these tasks when they began: %q", taken)
		}
	})
	return w
}

// use sets the programs that are used from now on.
func (w *world) use(programs ...string) { w.programs.Store(&programs) }

// path returns a path in the folder of the world.
func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

// launch describes a process to start.
type launch struct {
	name string
	argv []string
	env  []string // beside the world's
	// output is a file to append to; empty is a file of its own.
	output string
}

// start runs windlass until it is told to end.
func (w *world) start(name string, args ...string) *process {
	w.t.Helper()
	return w.launch(launch{name: name, argv: append([]string{program}, args...)})
}

// launch runs any program until it is told to end.
func (w *world) launch(l launch) *process {
	w.t.Helper()
	p := &process{name: l.name, output: l.output, done: make(chan struct{})}
	if p.output == "" {
		p.output = w.path("out", fmt.Sprintf("%02d-%s", w.launches, l.name))
	}
	w.launches++
	out, err := os.OpenFile(p.output, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	must(w.t, err)
	defer out.Close()
	p.cmd = exec.Command(l.argv[0], l.argv[1:]...)
	p.cmd.Env, p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = slices.Concat(w.env, l.env), w.dir, out, out
	// A group of its own, which is killed with the test.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	must(w.t, p.cmd.Start())
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended is in ProcessState
	}()
	w.started = append(w.started, p)
	return p
}

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (w *world) signal(p *process, sig syscall.Signal) time.Time {
	w.t.Helper()
	at := time.Now()
	// If it has just ended, its exit code shows how.
	if err := p.cmd.Process.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
		must(w.t, err)
	}
	return at
}

// kill ends a process with SIGKILL and waits for it.
func (w *world) kill(p *process) time.Time {
	w.t.Helper()
	at := w.signal(p, syscall.SIGKILL)
	<-p.done
	return at
}

// end stops everything, with SIGTERM first, and checks that nothing is left.
func (w *world) end(marker string) {
	// The nodes end first: they need the broker to leave.
	isBroker := func(p *process) bool { return p.name == brokerName }
	w.endAll(slices.DeleteFunc(slices.Clone(w.started), isBroker))
	w.endAll(w.started)
	var left []int
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for end := time.Now().Add(soon); time.Now().Before(end); <-poll.C {
		if left = processesOf(marker); len(left) == 0 {
			return
		}
	}
	for _, pid := range left {
		command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // only for the message
		w.t.Errorf("left behind: process %d %q", pid, command)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// endAll tells processes to end, and waits until they have.
func (w *world) endAll(processes []*process) {
	for _, p := range processes {
		if p.alive() {
			_ = p.cmd.Process.Signal(syscall.SIGCONT) // it may end meanwhile
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	limit := time.After(soon)
	for _, p := range processes {
		select {
		case <-p.done:
		case <-limit:
			w.t.Errorf("%s did not end on SIGTERM", p.name)
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
			<-p.done
			limit = time.After(0) // no more patience for the others
		}
	}
}

// processesOf lists the processes whose environment contains the marker.
func processesOf(marker string) []int {
	var list []int
	for _, pid := range pids() {
		if _, ok := startOf(pid); !ok {
			continue
		}
		if environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err == nil && bytes.Contains(environ, []byte(marker)) {
			list = append(list, pid)
		}
	}
	return list
}

// call runs windlass to its end and returns what it printed.
func (w *world) call(args ...string) (stdout, stderr string, code int) {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	caller := program
	if programs := w.programs.Load(); programs != nil {
		caller = (*programs)[w.calls.Add(1)%uint64(len(*programs))]
	}
	cmd := exec.CommandContext(ctx, caller, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = w.env, w.dir, &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return out.String(), err.Error(), -1
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must calls windlass, expects success and returns its standard output.
func (w *world) must(args ...string) string {
	w.t.Helper()
	out, errs, code := w.call(args...)
	if code != 0 {
		w.t.Fatalf("windlass %s: exit code %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

// task and node have the fields of the lists that the tests need.
type task struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Node   string `json:"node"`
	Token  int64  `json:"token"`
	Result struct {
		ExitCode int    `json:"exit_code"`
		Signal   string `json:"signal"`
		Output   string `json:"output"`
	} `json:"result"`
}

type node struct {
	Name        string `json:"name"`
	Tasks       int    `json:"tasks"`
	Incarnation string `json:"incarnation"`
}

// list reads the JSON output of a command into v, and returns false while the broker is
// unavailable.
func (w *world) list(v any, args ...string) bool {
	w.t.Helper()
	out, errs, code := w.call(append(args, "-o", "json")...)
	switch {
	case code == exitUnavailable:
		return false
	case code != 0:
		w.t.Fatalf("windlass %s: exit code %d: %s", strings.Join(args, " "), code, errs)
	}
	must(w.t, json.Unmarshal([]byte(out), v))
	return true
}

// eventually polls until missing returns nothing, and returns when that was.
func (w *world) eventually(limit time.Duration, missing func() string) time.Time {
	w.t.Helper()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for end := time.Now().Add(limit); ; <-poll.C {
		text := missing()
		at := time.Now()
		if text == "" {
			return at
		}
		if at.After(end) {
			w.t.Fatalf("not within %v: %s", limit, text)
		}
	}
}

// until polls until a condition holds, and returns when it did.
func (w *world) until(limit time.Duration, what string, holds func() bool) time.Time {
	w.t.Helper()
	return w.eventually(limit, func() string {
		if holds() {
			return ""
		}
		return what
	})
}

// pass waits until a moment lies some time in the past.
func (w *world) pass(since time.Time, d time.Duration) {
	w.t.Helper()
	w.until(d+soon, fmt.Sprintf("%v have passed", d), func() bool { return time.Since(since) >= d })
}

// waitCompleted waits until so many tasks are completed, and returns them.
func (w *world) waitCompleted(limit time.Duration, n int) (tasks []task, at time.Time) {
	w.t.Helper()
	at = w.eventually(limit, func() string {
		w.list(&tasks, "task", "list", "--status", "completed")
		return missing(len(tasks), n, "completed tasks")
	})
	return tasks, at
}

// submit submits tasks that run a command, under the lock of its task.
func (w *world) submit(prefix string, n int, script string) {
	w.t.Helper()
	w.must("task", "submit", "-f", w.writeLines(prefix+".jsonl", w.commands(prefix, n, script)))
}

// took logs how long something took.
func (w *world) took(what string, since, until time.Time) {
	w.t.Helper()
	w.t.Logf("measured: %s: %v", what, until.Sub(since).Round(time.Millisecond))
}

// writeLines writes values as lines of JSON into a file and returns its name.
func (w *world) writeLines(name string, values []any) string {
	w.t.Helper()
	var b bytes.Buffer
	for _, v := range values {
		must(w.t, json.NewEncoder(&b).Encode(v))
	}
	must(w.t, os.WriteFile(w.path(name), b.Bytes(), 0o600))
	return w.path(name)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
