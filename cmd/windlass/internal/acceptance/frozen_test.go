//go:build e2e && linux

package acceptance

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// TestNodes_M55_AFreezeAboutAsLongAsTheDeadlineFailsNoTask freezes a node until
// its supervisor has ended its commands, and thaws it before its session has
// expired: the ends of the commands and the end of the session are then news of
// the same moment. That a command was ended by its deadline is no failure of
// the task.
func TestNodes_M55_AFreezeAboutAsLongAsTheDeadlineFailsNoTask(t *testing.T) {
	const tasks = 40
	f := newFleet(t, "n1", "n2")
	f.must("task", "submit", "-f", f.writeLines("tasks.jsonl", f.commands("t", tasks, forever)))
	f.waitAllRun(tasks)
	for i, freeze := range []time.Duration{3700 * time.Millisecond, 4000 * time.Millisecond} {
		name := []string{"n1", "n2"}[i%2]
		stopped := f.signal(f.nodes[name], syscall.SIGSTOP)
		f.eventually(soon, func() string {
			if time.Since(stopped) < freeze {
				return fmt.Sprintf("%s has been frozen for %v", name, freeze)
			}
			return ""
		})
		f.signal(f.nodes[name], syscall.SIGCONT)
		f.took(fmt.Sprintf("thawing after %v until all tasks run", freeze), stopped.Add(freeze), f.waitAllRun(tasks))
		f.waitQuiet(tasks)
		f.noneLost(tasks)
		f.noneExited()
	}
}
