//go:build e2e

package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// endLater ends a group at the end of the test.
func endLater(t *testing.T, g *Group) {
	t.Cleanup(func() {
		if err := g.End(time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// newGroup makes a group, on a host where this process may.
func newGroup(t *testing.T) *Group {
	t.Helper()
	g, err := Make()
	if errors.Is(err, ErrUnavailable) {
		t.Skipf("needs control groups of version 2 that it may make: %v", err)
	}
	must(t, err)
	endLater(t, g)
	return g
}

// run starts a script in a group.
func run(t *testing.T, g *Group, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	must(t, cmd.Start())
	return cmd
}

func TestGroup_X01_EndsWhatWasDetachedInEveryWay(t *testing.T) {
	g := newGroup(t)
	child, err := g.Child("a")
	must(t, err)
	cmd := run(t, child, `(setsid env -i sleep 1000 &); (trap "" TERM HUP; sleep 1000) & exit 3`)
	_ = cmd.Wait()
	if alive, err := child.Alive(); !alive || err != nil {
		t.Errorf("alive %t, %v, while two sleep", alive, err)
	}
	must(t, child.End(time.Minute))
	if alive, err := g.Alive(); alive || err != nil {
		t.Errorf("alive %t, %v, after the end", alive, err)
	}
	if _, err := os.Stat(child.Dir()); err == nil {
		t.Error("its folder is left")
	}
}

func TestSweep_X02_EndsWhatNobodyHoldsAndNothingElse(t *testing.T) {
	held, left := newGroup(t), newGroup(t)
	must(t, left.folder.Close()) // as the kernel does when its holder dies
	dir := left.Dir()
	left, err := Open(dir)
	must(t, err)
	child, err := left.Child("a")
	must(t, err)
	for _, name := range []string{"windlass-node.service", "windlass-", "x" + filepath.Base(dir), filepath.Base(dir) + "x"} {
		unit, err := create(filepath.Join(filepath.Dir(dir), name))
		must(t, err)
		endLater(t, unit)
		spared := run(t, unit, "sleep 1000")
		t.Cleanup(func() {
			if alive, err := unit.Alive(); !alive || err != nil {
				t.Errorf("%s, which Make did not make: alive %t, %v", name, alive, err)
			}
			_ = unit.Kill()
			_ = spared.Wait()
		})
	}
	ended, lives := run(t, child, "sleep 1000"), run(t, held, "sleep 1000")
	if name := left.ChildOf(ended.Process.Pid); name != "a" {
		t.Errorf("it is in %q", name)
	}
	if name := left.ChildOf(lives.Process.Pid); name != "" {
		t.Errorf("another one is in %q", name)
	}
	must(t, Sweep(time.Minute))
	if err := ended.Wait(); err == nil || ended.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("what nobody held: %v", err)
	}
	for _, err := os.Stat(dir); err == nil; _, err = os.Stat(dir) {
		runtime.Gosched() // another process that sweeps may be about to remove it
	}
	if alive, err := held.Alive(); !alive || err != nil {
		t.Errorf("the held group: alive %t, %v", alive, err)
	}
	must(t, held.Kill())
	_ = lives.Wait()
}
