//go:build e2e && linux

package browsertest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience limits every wait. These tests do not measure how long things take.
const patience = 60 * time.Second

// pollEvery is the pause between checks of the page.
const pollEvery = 30 * time.Millisecond

// world is a folder with the processes of one test.
type world struct {
	*testing.T
	dir string
}

// process is a windlass that was started.
type process struct {
	cmd    *exec.Cmd
	output string // file
	done   chan struct{}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	// Not t.TempDir: its paths are too long for a socket.
	dir, err := os.MkdirTemp("/tmp", "wl-browser-")
	must(t, err)
	w := &world{T: t, dir: dir}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("kept %s", dir)
		} else if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"home", "tmp", "run", "state"} {
		must(t, os.Mkdir(w.path(name), 0o700))
	}
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Dir = w.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that is killed leaves none behind
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + w.path("home"), "TMPDIR=" + w.path("tmp"), "XDG_RUNTIME_DIR=" + w.path("run"), "XDG_STATE_HOME=" + w.path("state"),
	}
	return cmd
}

// start runs windlass until it is told to end, at the latest at the end of the test.
func (w *world) start(name string, args ...string) *process {
	w.Helper()
	p := &process{cmd: w.command(args...), output: w.path(name + ".out"), done: make(chan struct{})}
	out, err := os.Create(p.output)
	must(w.T, err)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	must(w.T, p.cmd.Start())
	must(w.T, out.Close())
	go func() {
		_ = p.cmd.Wait() // tests end processes in every way there is
		close(p.done)
	}()
	w.Cleanup(func() { w.end(p, syscall.SIGINT) })
	return p
}

// end sends a signal to a process, and waits until it has ended.
func (w *world) end(p *process, signal syscall.Signal) {
	w.Helper()
	_ = p.cmd.Process.Signal(signal) // it may have ended
	select {
	case <-p.done:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		w.Errorf("%s has not ended", p.output)
		<-p.done
	}
}

// run runs windlass to its end.
func (w *world) run(stdin string, args ...string) {
	w.Helper()
	cmd := w.command(args...)
	cmd.Stdin = bytes.NewBufferString(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("windlass %q: %v: %s", args, err, out)
	}
}

// said waits until a process has written something, and returns the first group.
func (w *world) said(p *process, pattern string) string {
	w.Helper()
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(patience); ; <-poll.C {
		text, err := os.ReadFile(p.output)
		must(w.T, err)
		if m := regexp.MustCompile(pattern).FindSubmatch(text); m != nil {
			return string(m[1])
		}
		if time.Now().After(end) {
			w.Fatalf("%s does not say %s: %s", p.output, pattern, text)
		}
	}
}

// dev starts a dev and returns where its dashboard is, with the token.
func (w *world) dev(args ...string) (*process, string) {
	w.Helper()
	p := w.start("dev", append([]string{"dev", "--data", w.path("data"), "--listen", "127.0.0.1:0", "--session-ttl", "5s"}, args...)...)
	page, err := os.ReadFile(w.said(p, `open +the address in (\S+)`))
	must(w.T, err)
	return p, strings.TrimSpace(string(page))
}
