//go:build e2e && linux

package acceptance

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// A node is frozen until its supervisor has ended its commands, and thawed before its session
// expires. It then learns of the ends of the commands and of its session at the same moment.
// A command that was ended by its deadline is no failure of the task.
func TestNodes_M55_AFreezeAboutAsLongAsTheDeadlineFailsNoTask(t *testing.T) {
	const tasks = 40
	f := newFleet(t, "n1", "n2")
	f.submit("t", tasks, forever)
	f.waitAllRun(tasks)
	for i, freeze := range []time.Duration{3700 * time.Millisecond, 4000 * time.Millisecond} {
		name := []string{"n1", "n2"}[i%2]
		stopped := f.signal(f.nodes[name], syscall.SIGSTOP)
		f.pass(stopped, freeze)
		f.signal(f.nodes[name], syscall.SIGCONT)
		f.took(fmt.Sprintf("thawing after %v until all tasks run", freeze), stopped.Add(freeze), f.waitAllRun(tasks))
		f.recovered(tasks)
	}
}

// The supervisor of a node that is told to stop is slower than the session's grace to end
// the commands. The node waits, and leaves no claim behind.
func TestNodes_M16_AStoppedNodeWaitsForCommandsThatAreSlowToEnd(t *testing.T) {
	const tasks = 10
	f := newFleet(t, "n1", "n2")
	f.submit("t", tasks, forever)
	f.waitAllRun(tasks)
	supervisor, _ := helpersOf(f.nodes["n1"].cmd.Process.Pid)
	if supervisor == 0 {
		t.Fatal("the node has no supervisor")
	}
	must(t, syscall.Kill(supervisor, syscall.SIGSTOP))
	stopped := f.signal(f.nodes["n1"], syscall.SIGTERM)
	f.pass(stopped, 2*time.Second) // of the session's grace of 1.3 s
	must(t, syscall.Kill(supervisor, syscall.SIGCONT))
	f.until(soon, "n1 has ended", func() bool { return !f.nodes["n1"].alive() })
	if code := f.nodes["n1"].cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("n1 ended with exit code %d", code)
	}
	f.took("all tasks run elsewhere", stopped, f.waitAllRun(tasks))
}

// Node and supervisor are frozen together, as by "pkill -STOP -f windlass", and their commands are not.
// The guard of the commands, which has another name, keeps the deadline.
func TestNodes_X01_ANodeThatIsFrozenWithItsSupervisorRunsNothingPastItsDeadline(t *testing.T) {
	const tasks = 10
	f := newFleet(t, "n1", "n2")
	f.submit("t", tasks, forever)
	f.waitAllRun(tasks)
	f.waitQuiet(tasks)
	before := f.incarnation("n1")
	supervisor, guard := helpersOf(f.nodes["n1"].cmd.Process.Pid)
	if supervisor == 0 || guard == 0 {
		t.Fatalf("the supervisor of the node is process %d, the guard %d", supervisor, guard)
	}
	stopped := f.signal(f.nodes["n1"], syscall.SIGSTOP)
	must(t, syscall.Kill(supervisor, syscall.SIGSTOP))
	f.goneInTime("frozen with its supervisor", stopped, f.waitNoneOf("n1"))
	f.took("all tasks run elsewhere", stopped, f.waitAllRun(tasks, "n1"))
	must(t, syscall.Kill(supervisor, syscall.SIGCONT))
	f.signal(f.nodes["n1"], syscall.SIGCONT)
	f.waitReturn("n1", before)
	f.recovered(tasks)
	f.noneExited()
}
