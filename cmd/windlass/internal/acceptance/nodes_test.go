//go:build e2e && linux

package acceptance

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestNodes_EachOfManyTasksRunsOnceAndNodesShareThemEvenly(t *testing.T) {
	f := loadedFleet(t)
	f.noneLost(fleetTasks)
}

func TestNodes_TasksOfAKilledNodeRunElsewhereOnceItsCommandsAreGone(t *testing.T) {
	f := loadedFleet(t)
	killed := f.kill(f.nodes["n2"])
	gone := f.waitNoneOf("n2")
	f.took("kill -9 of a node until its commands are gone", killed, gone)
	f.took("kill -9 of a node until all tasks run again", killed, f.waitAllRun(fleetTasks, "n2"))
	for id, runs := range f.census.history() {
		if later := runs[len(runs)-1]; len(runs) > 1 && later.first.Before(runs[0].last) {
			t.Errorf("task %s: %+v began before %+v had ended", id, later, runs[0])
		}
	}
	f.noneLost(fleetTasks)

	restarted := time.Now()
	f.startNode("n2")
	f.took("restart of the node until the load is even", restarted, f.waitEven())
	f.noneExited()
}

func TestNodes_ATerminatedNodeEndsItsCommandsAndHandsItsTasksOver(t *testing.T) {
	f := loadedFleet(t)
	stopped := time.Now()
	f.endsCleanly(f.nodes["n3"])
	f.took("SIGTERM of a node until it has exited", stopped, time.Now())
	f.took("SIGTERM of a node until all tasks run again", stopped, f.waitAllRun(fleetTasks, "n3"))
	f.noneLost(fleetTasks)
	if out := f.must("node", "list"); strings.Contains(out, "n3") {
		t.Errorf("the node is still listed:\n%s", out)
	}
}

func TestNodes_AFrozenNodeLosesItsTasksAndComesBackAsAnotherIncarnation(t *testing.T) {
	f := loadedFleet(t)
	before := f.incarnation("n1")
	stopped := f.signal(f.nodes["n1"], syscall.SIGSTOP)
	f.took("SIGSTOP of a node until its commands are gone", stopped, f.waitNoneOf("n1"))
	f.took("SIGSTOP of a node until all tasks run again", stopped, f.waitAllRun(fleetTasks, "n1"))
	f.holds(3*ttl-time.Since(stopped), func() string {
		return missing(f.census.byNode()["n1"], 0, "commands of the frozen node may be alive")
	})

	thawed := f.signal(f.nodes["n1"], syscall.SIGCONT)
	f.took("SIGCONT of the node until it is back", thawed, f.waitReturn("n1", before))
	f.took("SIGCONT of the node until the load is even", thawed, f.waitEven())
	f.noneExited()
	f.noneLost(fleetTasks)
}

func TestNodes_ACommandThatIgnoresSIGTERMDoesNotOutliveItsNode(t *testing.T) {
	for _, how := range []struct {
		name string
		sig  syscall.Signal
	}{{"a node that is killed", syscall.SIGKILL}, {"a node that is told to end", syscall.SIGTERM}} {
		t.Run(how.name, func(t *testing.T) {
			f := newFleet(t, "n1", "n2")
			const tasks = 10
			f.submit("s", tasks, stubborn)
			f.waitAllRun(tasks)
			if n := f.census.byNode()["n1"]; n == 0 {
				t.Fatal("n1 runs nothing")
			}
			since := f.signal(f.nodes["n1"], how.sig)
			f.took(how.sig.String()+" until its stubborn commands are gone", since, f.waitNoneOf("n1"))
			f.took(how.sig.String()+" until all run again", since, f.waitAllRun(tasks, "n1"))
		})
	}
}

func TestNodes_ATaskRunsOnlyWhereItsCommandIsAllowed(t *testing.T) {
	f := newFleet(t)
	f.startNode("sleeper", "sleep")
	f.eventually(soon, func() string { return f.missingNodes(1) })
	f.must("task", "submit", "allowed", "--", "sleep", "1000000")
	f.must("task", "submit", "shell", "--", "sh", "-c", "exec sleep 1000000")
	f.until(soon, "the allowed command runs", func() bool { return f.census.now()["allowed"].node == "sleeper" })
	f.holds(ttl, func() string { // long enough to be claimed many times
		var got task
		if f.list(&got, "task", "get", "shell"); got.Status != "pending" {
			return fmt.Sprintf("the shell is %+v; no node allows it", got)
		}
		return ""
	})

	f.startNode("shells", "sh")
	joined := time.Now()
	f.took("joining of a node that allows it until the task runs", joined,
		f.until(soon, "the shell runs on the node that allows it", func() bool { return f.census.now()["shell"].node == "shells" }))
	for id, runs := range f.census.history() {
		for _, r := range runs {
			if (id == "shell") != (r.node == "shells") {
				t.Errorf("task %s ran on %s", id, r.node)
			}
		}
	}
}
