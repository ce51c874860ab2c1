//go:build e2e

package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
)

// nodeEnv makes this binary the program.
const nodeEnv = "POLLER_TEST_MAIN"

func init() {
	if os.Getenv(nodeEnv) != "" {
		main()
		os.Exit(0)
	}
}

// process is a node that was started.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited
}

// startNode runs this test binary as the program.
func startNode(t *testing.T, name, folder, out string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], "--broker", folder, "--name", name, "--out", out), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), nodeEnv+"=1")
	log, err := os.Create(filepath.Join(t.TempDir(), name))
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // its state says how it ended
	}()
	t.Cleanup(func() {
		p.signal(t, syscall.SIGKILL)
		if text, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("node %s, %v, %v:\n%s", name, p.cmd.ProcessState, err, text)
		}
		_ = log.Close()
	})
	return p
}

// signal ends the process and waits for it.
func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	_ = p.cmd.Process.Signal(s) // it may have ended
	select {
	case <-p.done:
	case <-time.After(15 * time.Second):
		t.Errorf("process %d goes on 15s after %v", p.cmd.Process.Pid, s)
	}
}

// until waits for what other processes do.
func until(t *testing.T, within time.Duration, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(within)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("not within %v: %s", within, what)
		case <-tick.C:
		}
	}
}

// TestPoller_OfTwoProcessesOneIsKilledAndNothingIsLostOrDoubled runs the program
// as people do, against a source over HTTP.
func TestPoller_OfTwoProcessesOneIsKilledAndNothingIsLostOrDoubled(t *testing.T) {
	folder, err := os.MkdirTemp("", "poller-") // not t.TempDir: others must not be able to read it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	server, err := embedded.Start(t.Context(), embedded.Config{Dir: folder, Socket: true, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	client, err := windlass.NewClient(server.Broker(), "")
	if err != nil {
		t.Fatal(err)
	}
	w := &web{last: map[string]int64{}}
	source := httptest.NewServer(w.feed().handler())
	defer source.Close()
	out := output{dir: t.TempDir()}
	var customers []string
	for i := range 6 {
		customers = append(customers, fmt.Sprintf("customer-%d", i))
	}
	everyoneHas := func(n int) func() bool {
		return func() bool {
			for _, customer := range customers {
				if len(read(t, out, customer)) < n {
					return false
				}
			}
			return true
		}
	}

	a, b := startNode(t, "a", folder, out.dir), startNode(t, "b", folder, out.dir)
	defer b.signal(t, syscall.SIGKILL) // also when the test gives up: before the broker goes
	defer a.signal(t, syscall.SIGKILL)
	until(t, 2*time.Minute, "both nodes have joined", func() bool {
		nodes, err := client.Nodes(t.Context())
		return err == nil && len(nodes) == 2
	})
	w.publish(50, customers...)
	for _, customer := range customers {
		what := fmt.Appendf(nil, `{"url":"%s/feeds/%s","every":"50ms"}`, source.URL, customer)
		if err := client.Submit(t.Context(), windlass.Submission{ID: customer, Spec: windlass.Spec{Type: taskType}, Props: what}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, 2*time.Minute, "everyone has 50 items", everyoneHas(50))

	struck := ""
	tasks, err := client.Tasks(t.Context(), windlass.Filter{Nodes: []string{"a"}})
	if err != nil || len(tasks) == 0 || len(tasks) == len(customers) {
		t.Fatalf("node a holds %d of %d tasks, %v", len(tasks), len(customers), err)
	}
	struck = tasks[0].ID
	w.publish(250, customers...)
	until(t, 2*time.Minute, "node a is in the middle of it", func() bool { return len(read(t, out, struck)) >= 60 })
	a.signal(t, syscall.SIGKILL)
	w.publish(500, customers...)
	until(t, 2*time.Minute, "everyone has 500 items", everyoneHas(500))
	for _, customer := range customers {
		checkComplete(t, out, customer, 500)
		again := 0
		for _, times := range written(t, out, customer) {
			again += times - 1
		}
		if t.Logf("%s: %d items were written again", customer, again); again > pageMax {
			t.Errorf("%s: %d items were written again; the page whose checkpoint was not stored has at most %d", customer, again, pageMax)
		}
	}
	lines := read(t, out, struck)
	if first, last := lines[0].Token, lines[len(lines)-1].Token; first >= last {
		t.Errorf("%s was not taken over: its tokens are %d and %d", struck, first, last)
	}
	if b.signal(t, syscall.SIGTERM); !b.cmd.ProcessState.Success() {
		t.Errorf("node b was told to stop: %v", b.cmd.ProcessState)
	}
}
