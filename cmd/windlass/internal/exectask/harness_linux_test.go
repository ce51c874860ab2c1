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
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

// The test binary is also the supervisor and, to be killed and frozen, the node.
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

// nodePlan is what a node process is told on its standard input, which unlike
// its environment and arguments is not seen by the search for a marker.
type nodePlan struct {
	Stop, Hard    time.Duration // the deadlines lie this far ahead
	Grace, Answer time.Duration
	Script        string
}

// nodeMain is a node that renews its right to run every 10 ms, runs one script
// and prints its supervisor's number.
func nodeMain(stdin io.Reader) error {
	var plan nodePlan
	if err := json.NewDecoder(stdin).Decode(&plan); err != nil {
		return err
	}
	s, err := Start(context.Background(), Config{Args: []string{supervisorRole}, Grace: plan.Grace, Answer: plan.Answer})
	if err != nil {
		return err
	}
	renew := time.NewTicker(10 * time.Millisecond)
	defer renew.Stop()
	stop := make(chan struct{})
	go func() {
		for {
			s.SetDeadline(clock.Boot()+plan.Stop, clock.Boot()+plan.Hard)
			select {
			case <-renew.C:
			case <-stop:
				return
			}
		}
	}()
	fmt.Println(s.Pid())
	for {
		_, err = s.Run(context.Background(), script("node-task", plan.Script))
		if err == nil {
			break
		}
	}
	close(stop)
	return s.Close()
}

// startNode starts a node process and returns it with its supervisor's number.
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

// start starts a supervisor that may run things for an hour, and at the end of
// the test closes it and reads what it had to complain about.
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

// outcomes of commands that run beside the test.
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

// wait returns the outcome within the time that every such test allows.
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

// marker is a number that no other process shows: scripts put it into the
// arguments of sleep, where it is seen even if the environment was cleared.
func marker() string { return fmt.Sprintf("1000.%09d", rand.IntN(1e9)) }

// alive lists the living processes that show the marker in their arguments or
// their environment: an outside view that knows nothing of Windlass.
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

// appears waits until n processes show the marker and none of them is a shell's
// child that is still about to become something else: a signal in that moment is
// taken by what the shell left behind, and lost.
func appears(t testing.TB, marker string, n int) {
	t.Helper()
	eventually(t, time.Minute, fmt.Sprintf("%d processes with %s", n, marker), func() bool {
		pids := alive(t, marker)
		return len(pids) >= n && !slices.ContainsFunc(pids, func(pid int) bool { return becoming(pid) })
	})
}

// becoming tells whether a process still is the copy of its parent.
func becoming(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, ok := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	if err != nil || !ok || len(fields) < 2 {
		return false
	}
	own, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	parents, _ := os.ReadFile("/proc/" + fields[1] + "/cmdline")
	return bytes.Equal(own, parents)
}

func vanishes(t testing.TB, marker string, limit time.Duration) {
	t.Helper()
	eventually(t, limit, "no process with "+marker, func() bool { return len(alive(t, marker)) == 0 })
}
