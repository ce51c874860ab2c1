//go:build e2e

package exectask

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// asNobody has commands run as that user, for which rights of root are needed.
func asNobody(t *testing.T) func(*Config) {
	t.Helper()
	if err := mayBecomeOthers(); err != nil {
		t.Skip(err)
	}
	nobody, err := FindUser("nobody")
	must(t, err)
	return func(c *Config) { c.User = nobody }
}

// A command that runs as another user has none of the node's rights and names, and neither
// ends the node nor reads its files.
func TestUser_CommandsHaveNoneOfTheNodesRights(t *testing.T) {
	s := start(t, asNobody(t))
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("known to the node alone"), 0o600))
	nobody := s.cfg.User
	res := runOK(t, s, script("t", fmt.Sprintf(`id -u; id -g; echo $USER $HOME
grep -E '^(Cap(Prm|Eff|Amb)|NoNewPrivs)' /proc/self/status | tr -s '\t\n' ' '; echo
cat %s 2>&1; kill -STOP %d 2>&1; kill -KILL %d 2>&1; echo end`, secret, os.Getpid(), s.Pid())))
	want := fmt.Sprintf("%d\n%d\n%s %s\nCapPrm: 0000000000000000 CapEff: 0000000000000000 CapAmb: 0000000000000000 NoNewPrivs: 1 \n",
		nobody.UID, nobody.GID, nobody.Name, nobody.Home)
	got := string(res.Output)
	if !strings.HasPrefix(got, want) || strings.Count(got, "not permitted")+strings.Count(got, "denied") != 3 || !strings.HasSuffix(got, "\nend\n") {
		t.Errorf("it said %q, %s", got, res)
	}
	c := script("t", "exit 0")
	c.Dir = filepath.Dir(secret)
	must(t, os.Chmod(c.Dir, 0o700))
	if _, err := s.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "for user nobody") {
		t.Errorf("in a folder of the node: %v", err)
	}
}

// What runs as another user ends as all does, wherever it has gone.
func TestUser_NothingOfAnotherSurvives(t *testing.T) {
	s := start(t, asNobody(t))
	m := marker()
	stopped := background(t, s, script("stopped", detached(m)))
	sleeping(t, m, 4)
	stopped.cancel()
	stopped.wait(t)
	if left := alive(t, m); len(left) > 0 {
		t.Errorf("still alive when Run returned: %v", left)
	}
	if s.Ungrouped() != nil {
		return // what has left everything is known by its control group alone
	}
	lost := background(t, s, script("lost", detached(m)))
	sleeping(t, m, 4)
	must(t, syscall.Kill(s.Pid(), syscall.SIGKILL))
	lost.wait(t)
	if left := alive(t, m); len(left) > 0 {
		t.Errorf("still alive after the supervisor's end: %v", left)
	}
}

func TestUser_WhoCannotBeIsNamed(t *testing.T) {
	asNobody(t)
	for name, reason := range map[string]string{
		"root": "must not be root", "0": "must not be root", "no-such-user": "must be a user", "4294967295": "must be a user",
	} {
		if _, err := FindUser(name); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
