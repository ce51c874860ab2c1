package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// orderEnv has the order for a role. It may have passwords, which other users of the
// machine cannot read there.
const orderEnv = "WINDLASS_BENCH_ORDER"

// self returns the command of this program in a role, with its order.
func self(role, order string, env ...string) *exec.Cmd {
	path := "/proc/self/exe" // this binary, even after a build has replaced the file
	if runtime.GOOS != "linux" {
		path, _ = os.Executable() // without a path, starting it fails
	}
	return &exec.Cmd{Path: path, Args: []string{"bench", role}, Env: append(append(os.Environ(), orderEnv+"="+order), env...)}
}

// keeper runs a server with its output in a file, and sends it a signal when standard
// input ends: its arguments are the signal, the file, and the server's command.
const keeper = `log=$1
shift
exec 3<&0
"$@" </dev/null >"$log" 2>&1 &
server=$!
{ cat <&3; kill -"$0" $server; } >/dev/null 2>&1 &
wait $server
code=$?
test $code = 0 || tail -c 2000 "$log" >&2
exit $code`

// server returns the command of a server that does not end with its standard input by
// itself. It gets a signal then, by name, and must end without an error.
func server(signal, log string, command ...string) *exec.Cmd {
	return exec.Command("/bin/sh", append([]string{"-c", keeper, signal, log}, command...)...)
}

// child is a process that this one has started. It writes lines, and ends when its
// standard input does, so nothing is left behind however this process ends.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	reader sync.WaitGroup
	over   chan struct{} // closed when it has ended and all its lines were heard
	err    error         // with which it ended, to be read when over is closed
}

// startChild starts a process. heard is called for each line of its output, by one
// goroutine, and must not wait for the process to end.
func startChild(tb testing.TB, cmd *exec.Cmd, heard func(line []byte)) *child {
	tb.Helper()
	c := &child{cmd: cmd, over: make(chan struct{})}
	var errs strings.Builder
	cmd.Stderr = &errs
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true // so that it does not get the terminal's signals
	out, outErr := cmd.StdoutPipe()
	in, inErr := cmd.StdinPipe()
	must(tb, errors.Join(outErr, inErr, cmd.Start()))
	c.in = in
	c.reader.Go(func() {
		defer close(c.over)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			heard(lines.Bytes())
		}
		if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
			c.err = fmt.Errorf("%s: %w: %s", cmd.Args[1], err, strings.TrimSpace(errs.String()))
		}
	})
	tb.Cleanup(func() { _ = c.close() }) // it may be closed already
	return c
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill ends the process, and those that it has started, with SIGKILL.
func (c *child) kill() { _ = syscall.Kill(-c.pid(), syscall.SIGKILL) } // it may have ended already

// endMax limits how long a process may take to end in order.
const endMax = 30 * time.Second

// close ends the process in order, and waits for that.
func (c *child) close() error {
	_ = c.in.Close() // it may be closed already
	defer time.AfterFunc(endMax, c.kill).Stop()
	c.reader.Wait()
	return c.err
}

// ports returns unused ports of this machine.
func ports(tb testing.TB, n int) (found []int) {
	tb.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(tb, err)
		defer func() { _ = l.Close() }() // all at the end, so that they differ
		found = append(found, l.Addr().(*net.TCPAddr).Port)
	}
	return found
}

// readyMax limits how long a server may take to answer, on a loaded machine, and
// readyEvery is how often it is asked.
const (
	readyMax   = time.Minute
	readyEvery = 20 * time.Millisecond
)

// awaitReady asks a server that has been started until it is ready.
func awaitReady(tb testing.TB, c *child, ready func(context.Context) error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), readyMax)
	defer cancel()
	again := time.NewTicker(readyEvery)
	defer again.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-c.over:
			tb.Fatalf("the server ended while it started: %v", c.err)
		case <-ctx.Done():
			tb.Fatalf("the server does not answer: %v", err)
		}
	}
}

// tick is the unit of times in /proc, which is the same on every Linux.
const tick = 10 * time.Millisecond

// processorTime returns the processor time so far of processes and their descendants,
// ended ones included; zero if the system does not report it.
func processorTime(pids ...int) (used time.Duration) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	parents, times := map[int]int{}, map[int]time.Duration{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		// The name before the last parenthesis may have spaces and parentheses itself.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		const parent, user, childrenSystem = 1, 11, 14
		pid := number(filepath.Base(filepath.Dir(path)))
		parents[pid] = number(fields[parent])
		for _, ticks := range fields[user : childrenSystem+1] {
			times[pid] += time.Duration(number(ticks)) * tick
		}
	}
	wanted := map[int]bool{}
	for _, pid := range pids {
		wanted[pid] = true
	}
	for pid, t := range times {
		for p := pid; p > 1; p = parents[p] {
			if wanted[p] {
				used += t
				break
			}
		}
	}
	return used
}

// number parses a number that the system writes.
func number(text string) int {
	n, _ := strconv.Atoi(text) // the system writes nothing else
	return n
}

func TestServer_GetsItsSignalWhenTheInputEnds(t *testing.T) {
	started := filepath.Join(t.TempDir(), "fifo")
	must(t, syscall.Mkfifo(started, 0o600))
	c := startChild(t, server("TERM", filepath.Join(t.TempDir(), "log"), "/bin/sh", "-c",
		"trap 'exit 0' TERM; echo >"+started+"; while :; do sleep 0.01; done"), func([]byte) {})
	if _, err := os.ReadFile(started); err != nil {
		t.Fatal(err)
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
}

func TestServer_ReportsWhyItEndedByItself(t *testing.T) {
	c := startChild(t, server("TERM", filepath.Join(t.TempDir(), "log"), "/bin/sh", "-c", "echo broken; exit 7"), func([]byte) {})
	<-c.over
	if err := c.close(); err == nil || !strings.Contains(err.Error(), "broken") || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("%v, want an error with its output and its exit status", err)
	}
}
