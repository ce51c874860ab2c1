//go:build e2e && linux

package acceptance

import (
	"os"
	"strings"
	"testing"
)

// A command runs as the user of its node. It must not find the secrets of node and supervisor
// in their environment or open files.
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
	w.waitCompleted(patience, 1)
	if got := w.must("task", "logs", "spy"); !strings.HasSuffix(got, "\nlooked\n") || strings.Contains(got, "KNOWN") || strings.Contains(got, "member") {
		t.Errorf("it found %s", got)
	}
}
