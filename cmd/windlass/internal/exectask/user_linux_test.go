//go:build e2e

package exectask

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// asNobody makes commands run as the user nobody, which needs the rights of root.
func asNobody(t *testing.T) func(*Config) {
	t.Helper()
	if err := mayBecomeOthers(); err != nil {
		t.Skip(err)
	}
	nobody, err := FindUser("nobody")
	must(t, err)
	return func(c *Config) { c.User = nobody }
}

// A command that runs as another user has none of the node's rights and names, and can
// neither end the node nor read its files.
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
	// The user cannot find out which files exist in a folder of the node.
	must(t, os.Chmod(filepath.Dir(secret), 0o700))
	for _, dir := range []string{filepath.Dir(secret), secret, filepath.Join(filepath.Dir(secret), "none")} {
		c := script("t", "exit 0")
		c.Dir = filepath.Join(dir, "x")
		if _, err := s.Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "permission denied for user nobody, to start it or to enter the folder "+strconv.Quote(c.Dir)) {
			t.Errorf("in %s: %v", c.Dir, err)
		}
	}
}

// It starts in a folder that every user may enter, and can open /dev/stdout and /dev/stderr.
func TestUser_CommandsHaveAFolderAndOutputs(t *testing.T) {
	closed := t.TempDir()
	must(t, os.Chmod(closed, 0o700))
	t.Chdir(closed)
	t.Setenv("TMPDIR", closed)
	s := start(t, asNobody(t))
	res := runOK(t, s, script("t", "pwd; echo $TMPDIR; echo out > /dev/stdout; echo err > /dev/stderr"))
	if got := string(res.Output); got != "/\n\nout\nerr\n" {
		t.Errorf("it said %q", got)
	}
}

// It inherits neither keys nor capabilities of root.
func TestUser_CommandsInheritNothingOfRoots(t *testing.T) {
	as := asNobody(t)
	runtime.LockOSThread() // for good: the thread, which has all this, ends with the test
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err == nil {
		_, err = unix.AddKey("user", "windlass-test", []byte("secret"), unix.KEY_SPEC_SESSION_KEYRING)
	}
	if err != nil && !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.EPERM) {
		t.Fatal(err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	must(t, unix.Capget(&header, &sets[0]))
	sets[0].Inheritable |= 1 << unix.CAP_DAC_READ_SEARCH
	must(t, unix.Capset(&header, &sets[0]))
	must(t, unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_DAC_READ_SEARCH, 0, 0))
	const noSetuidFixup = 1 << 2
	must(t, unix.Prctl(unix.PR_SET_SECUREBITS, noSetuidFixup, 0, 0, 0))
	res := runOK(t, start(t, as), script("t", "grep CapEff /proc/self/status; grep windlass-test /proc/keys; true"))
	if got := string(res.Output); got != "CapEff:\t0000000000000000\n" {
		t.Errorf("it has %q", got)
	}
}

// Processes of another user end too, however they detached themselves.
func TestUser_NothingOfAnotherSurvives(t *testing.T) {
	s := start(t, asNobody(t))
	m := marker()
	stopped := background(t, s, script("stopped", detached(m)))
	sleeping(t, m, 4)
	stopped.cancel()
	stopped.wait(t)
	vanishes(t, m, 0)
	if s.Ungrouped() != nil {
		return // without a control group, detached processes are not found
	}
	lost := background(t, s, script("lost", detached(m)))
	sleeping(t, m, 4)
	must(t, syscall.Kill(s.Pid(), syscall.SIGKILL))
	lost.wait(t)
	vanishes(t, m, 0)
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
