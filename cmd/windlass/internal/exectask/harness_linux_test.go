//go:build e2e

package exectask

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

// The test binary is also the supervisor, and the node that is killed and frozen.
const (
	supervisorRole = "exec-supervisor"
	clumsyRole     = "clumsy-supervisor"
	absentRole     = "absent-supervisor"
	nodeRole       = "exec-node"
)

// init makes this binary a supervisor or a node when it is started as one.
func init() {
	if len(os.Args) < 2 {
		return
	}
	switch os.Args[1] {
	case supervisorRole:
		os.Exit(SuperviseMain(SocketFD))
	case clumsyRole:
		if f, err := os.OpenFile(os.Args[2], os.O_CREATE|os.O_EXCL, 0o600); err == nil {
			_ = f.Close()
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		os.Exit(SuperviseMain(SocketFD))
	case absentRole:
		os.Exit(0)
	case nodeRole:
		if err := nodeMain(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, "node:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// nodePlan goes to a node process on standard input: in its environment or arguments, the
// search for the marker would find it.
type nodePlan struct {
	Stop, Hard    time.Duration // the deadlines lie this far ahead
	Grace, Answer time.Duration
	Script        string
}

// nodeMain is a node that renews its deadline every 10 ms, prints its supervisor's process
// ID and runs one script.
func nodeMain(stdin io.Reader) error {
	var plan nodePlan
	if err := json.NewDecoder(stdin).Decode(&plan); err != nil {
		return err
	}
	s, err := Start(context.Background(), Config{Args: []string{supervisorRole}, Grace: plan.Grace, Answer: plan.Answer})
	if err != nil {
		return err
	}
	go func() {
		for {
			s.SetDeadline(clock.Boot()+plan.Stop, clock.Boot()+plan.Hard)
			<-time.After(10 * time.Millisecond)
		}
	}()
	fmt.Println(s.Pid())
	for {
		if _, err := s.Run(context.Background(), script("node-task", plan.Script)); err == nil {
			return s.Close()
		}
	}
}

// startNode starts a node process and returns it with its supervisor's process ID.
func startNode(t *testing.T, plan nodePlan) (node *os.Process, supervisor int) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self, nodeRole)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGCONT)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	must(t, json.NewEncoder(in).Encode(plan))
	_, err = fmt.Fscan(out, &supervisor)
	must(t, err)
	return cmd.Process, supervisor
}

// start starts a supervisor with a deadline in an hour. At the end of the test it closes it
// and fails the test if it wrote to standard error.
func start(t testing.TB, change ...func(*Config)) *Supervisor {
	t.Helper()
	s := startIdle(t, change...)
	s.SetDeadline(clock.Boot()+time.Hour, clock.Boot()+time.Hour)
	return s
}

func startIdle(t testing.TB, change ...func(*Config)) *Supervisor {
	t.Helper()
	complaints, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	must(t, err)
	cfg := Config{Args: []string{supervisorRole}, Node: "node-1", Answer: 10 * time.Second, Stderr: complaints}
	cfg.Env = []string{"GOCOVERDIR=" + t.TempDir()} // or a binary built for coverage complains
	for _, c := range change {
		c(&cfg)
	}
	s, err := Start(context.Background(), cfg)
	must(t, err)
	t.Cleanup(func() {
		if pid := s.Pid(); t.Failed() && pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // do not wait for what the test found not to end
		}
		must(t, s.Close())
		text, err := os.ReadFile(complaints.Name())
		must(t, err)
		if len(text) > 0 {
			t.Errorf("the supervisor complained:\n%s", text)
		}
		complaints.Close()
	})
	return s
}

func script(task, text string) Command {
	return Command{Task: task, Token: "7", Path: "/bin/sh", Argv: []string{"sh", "-c", text}}
}

// running is a command that runs beside the test.
type running struct {
	cancel context.CancelFunc
	done   chan outcome
}

func background(t *testing.T, s *Supervisor, c Command) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	r := &running{cancel: cancel, done: make(chan outcome, 1)}
	go func() {
		res, err := s.Run(ctx, c)
		r.done <- outcome{res, err}
	}()
	return r
}

func (r *running) wait(t *testing.T) outcome {
	t.Helper()
	select {
	case o := <-r.done:
		return o
	case <-time.After(2 * time.Minute):
		t.Fatal("the run did not end within two minutes")
		return outcome{}
	}
}

func runOK(t *testing.T, s *Supervisor, c Command) Result {
	t.Helper()
	res, err := s.Run(context.Background(), c)
	must(t, err)
	return res
}

// marker returns a random duration. Scripts pass it to sleep, so that processes with a
// cleared environment show it too.
func marker() string { return fmt.Sprintf("1000.%09d", rand.IntN(1e9)) }

// alive lists the live processes with the marker in their arguments or environment, without
// any code of the package.
func alive(t testing.TB, marker string) []int {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*")
	must(t, err)
	var found []int
	for _, name := range names {
		pid, err := strconv.Atoi(filepath.Base(name))
		if err != nil || pid == os.Getpid() {
			continue
		}
		args, _ := os.ReadFile(name + "/cmdline")
		env, _ := os.ReadFile(name + "/environ")
		if bytes.Contains(args, []byte(marker)) || bytes.Contains(env, []byte(marker)) {
			found = append(found, pid)
		}
	}
	return found
}

// appears waits until n processes show the marker and none of them is a shell's child
// before its exec: it would lose a signal to the trap that it has copied.
func appears(t testing.TB, marker string, n int) {
	t.Helper()
	eventually(t, time.Minute, fmt.Sprintf("%d processes with %s", n, marker), func() bool {
		pids := alive(t, marker)
		return len(pids) >= n && !slices.ContainsFunc(pids, beforeExec)
	})
}

// beforeExec reports whether a process still has the arguments of its parent.
func beforeExec(pid int) bool {
	p, err := readStat(pid)
	if err != nil {
		return false
	}
	own, _ := os.ReadFile(procPath(pid, "cmdline"))
	parents, _ := os.ReadFile(procPath(p.ppid, "cmdline"))
	return bytes.Equal(own, parents)
}

func vanishes(t testing.TB, marker string, limit time.Duration) {
	t.Helper()
	eventually(t, limit, "no process with "+marker, func() bool { return len(alive(t, marker)) == 0 })
}
