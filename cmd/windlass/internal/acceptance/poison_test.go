//go:build e2e && linux

package acceptance

import (
	"strings"
	"testing"
	"time"
)

// regicide is a command that kills what started it, which is the supervisor of all commands of its node.
const regicide = `sleep 0.2; kill -9 $PPID; sleep 1000000`

// A command that kills the supervisor of its node ends all commands there, as if the node had died. It
// is found out, and set aside; the others go on.
func TestNodes_O02_ACommandThatKillsItsSupervisorIsSetAside(t *testing.T) {
	const tasks = 24
	f := newFleet(t, "n1", "n2", "n3")
	f.submit("t", tasks, forever)
	f.waitAllRun(tasks)
	f.waitQuiet(tasks)
	began := time.Now()
	f.must("task", "submit", "killer", "--", "sh", "-c", regicide)
	f.until(time.Minute, "the killer is set aside", func() bool {
		return strings.Contains(f.must("task", "list", "--status", "failed"), "killer")
	})
	f.took("a command that kills its supervisor is set aside", began, time.Now())
	f.waitAllRun(tasks)
	var failed []struct{ ID string }
	if f.list(&failed, "task", "list", "--status", "failed"); len(failed) != 1 {
		t.Errorf("failed are %v", failed)
	}
	if n := f.deathsOf("n1") + f.deathsOf("n2") + f.deathsOf("n3"); n < 3 || n > 4 {
		t.Errorf("%d deaths are recorded:\n%s", n, f.must("node", "deaths"))
	}
	if text := f.must("task", "get", "killer"); !strings.Contains(text, "set aside: the process that ran it died 3 times") {
		t.Errorf("the killer is told of with:\n%s", text)
	}
	if text := f.must("task", "history", "killer"); strings.Count(text, "the supervisor that ran it died") != 3 {
		t.Errorf("its history is:\n%s", text)
	}
	f.noneExited()
}
