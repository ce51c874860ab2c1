//go:build e2e && linux

package acceptance

import (
	"os"
	"strings"
	"testing"
)

// A command has the user of the node, and finds neither in the environment nor among the
// open files of node and supervisor what these know.
func TestCommand_DoesNotReadWhatItsNodeKnows(t *testing.T) {
	w := newWorld(t)
	argv := []string{program, "dev", "--nodes", "1", "--session-ttl", "5s"}
	if os.Geteuid() == 0 { // whose commands may read everything, else
		argv = append([]string{"setpriv", "--bounding-set=-all"}, argv...)
	}
	w.launch(launch{name: "dev", argv: argv, env: []string{"KNOWN=to-the-node-alone"}})
	w.eventually(soon, func() string { return w.missingNodes(1) })
	w.must("task", "submit", "spy", "--", "sh", "-c",
		`for p in /proc/[0-9]*; do tr "\0" "\n" <$p/environ; ls -l $p/fd; done 2>/dev/null | grep -e KNOWN=to-the-node -e etcd/member; echo looked`)
	w.eventually(patience, func() string {
		var tasks []task
		w.list(&tasks, "task", "list", "--status", "completed")
		return missing(len(tasks), 1, "completed tasks")
	})
	if got := w.must("task", "logs", "spy"); !strings.HasSuffix(got, "\nlooked\n") || strings.Contains(got, "KNOWN") || strings.Contains(got, "member") {
		t.Errorf("it found %s", got)
	}
}
