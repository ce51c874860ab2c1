//go:build e2e

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker/etcd/embedded"
	"github.com/windlass-go/windlass/tree"
)

// nodeEnv makes this binary the program.
const nodeEnv = "SOURCES_TEST_MAIN"

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
func startNode(t *testing.T, name, folder string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], "--join", folder, "--name", name), done: make(chan struct{})}
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
		p.end(t, syscall.SIGKILL)
		if text, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("node %s, %v, %v:\n%s", name, p.cmd.ProcessState, err, text)
		}
		_ = log.Close()
	})
	return p
}

// end ends the process and waits for it.
func (p *process) end(t *testing.T, s os.Signal) {
	t.Helper()
	_ = p.cmd.Process.Signal(s) // it may have ended
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Errorf("process %d goes on a minute after %v", p.cmd.Process.Pid, s)
	}
}

// holding counts the jobs that each node holds.
func holding(f *tree.Forest) map[string]int {
	held := map[string]int{}
	for _, job := range f.Jobs() {
		if job.Working() {
			held[job.Node]++
		}
	}
	return held
}

// strike kills a node that holds jobs at a moment. It is stopped first, so that it
// still holds them when it is killed.
func strike(ctx context.Context, t *testing.T, jobs *tree.Tree, nodes map[string]*process, moment func(*tree.Forest) bool) {
	t.Helper()
	for forest, err := range jobs.Watch(ctx, 20*time.Millisecond) {
		if err != nil {
			t.Fatal(err)
		}
		if report, ok := forest.Get(reportPath); ok && report.Completed() {
			t.Log("the moment has passed: no node was killed")
			return
		}
		if !moment(forest) {
			continue
		}
		for name := range holding(forest) {
			_ = nodes[name].cmd.Process.Signal(syscall.SIGSTOP)
			now, err := jobs.Load(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if held := holding(now)[name]; held > 0 && moment(now) {
				nodes[name].end(t, syscall.SIGKILL)
				p := now.Progress(time.Now())
				t.Logf("%s was killed when %d of %d jobs were completed; it held %d", name, p.Done, p.Total, held)
				return
			}
			_ = nodes[name].cmd.Process.Signal(syscall.SIGCONT)
		}
	}
	t.Fatalf("no node held anything: %v", context.Cause(ctx))
}

// moments are when a node is killed: the one that queues the jobs, which the next
// one then queues again, and one of those that run them. A slow machine may miss the first.
var moments = map[string]func(*tree.Forest) bool{
	"while it queues the jobs": func(f *tree.Forest) bool {
		list, ok := f.Get(listPath)
		return ok && list.Working()
	},
	"in the middle of it": func(f *tree.Forest) bool { return f.Progress(time.Now()).Done >= 200 },
}

// TestSources_OfThreeProcessesOneIsKilledAndTheReportIsComplete runs the program as
// people do, over the sources of Go.
func TestSources_OfThreeProcessesOneIsKilledAndTheReportIsComplete(t *testing.T) {
	root, err := sourcesOfGo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := direct(t, root)
	for name, moment := range moments {
		t.Run(name, func(t *testing.T) {
			if got := runKilled(t, root, moment); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the report says %+v, one function says %+v", got, want)
			}
		})
	}
}

// runKilled runs the jobs on three nodes, of which one is killed, and returns the
// report.
func runKilled(t *testing.T, root string, moment func(*tree.Forest) bool) summary {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	folder, err := os.MkdirTemp("", "sources-") // not t.TempDir: others must not be able to read it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	server, err := embedded.Start(ctx, embedded.Config{Dir: folder, Socket: true, UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}()
	nodes := map[string]*process{}
	for _, name := range []string{"a", "b", "c"} {
		p := startNode(t, name, folder)
		defer p.end(t, syscall.SIGKILL) // also when the test gives up: before the broker goes
		nodes[name] = p
	}
	jobs, err := tree.New(server.Broker(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := jobs.Init(ctx); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := start(ctx, jobs, root); err != nil {
		t.Fatal(err)
	}
	strike(ctx, t, jobs, nodes, moment)
	struck := time.Now()
	if err := await(ctx, jobs, t.Output()); err != nil {
		t.Fatal(err)
	}
	t.Logf("it was killed after %v, and the others needed %v more", struck.Sub(begin).Round(time.Millisecond), time.Since(struck).Round(time.Millisecond))
	checkAll(ctx, t, jobs)
	client, err := windlass.NewClient(server.Broker(), "")
	if err != nil {
		t.Fatal(err)
	}
	reported, err := report(ctx, client)
	if err != nil {
		t.Fatal(err)
	}
	return reported
}

// checkAll checks that all jobs that were queued are completed.
func checkAll(ctx context.Context, t *testing.T, jobs *tree.Tree) {
	t.Helper()
	forest, err := jobs.Load(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if forest.Len() < 500 {
		t.Errorf("there are %d jobs", forest.Len())
	}
	by := map[string]int{}
	for _, job := range forest.Jobs() {
		if by[job.Node]++; job.Status != windlass.StatusCompleted || len(job.Errors) > 0 {
			t.Errorf("%s is %s: %v", job.Path, job.Status, job.Errors)
		}
	}
	t.Logf("of %d jobs each node completed: %v", forest.Len(), by)
}
