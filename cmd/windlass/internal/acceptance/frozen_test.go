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
