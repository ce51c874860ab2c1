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

// newGroup makes a group, on a host where this process may.
func newGroup(t *testing.T) *Group {
	t.Helper()
	g, err := Make()
	if errors.Is(err, ErrUnavailable) {
		t.Skipf("needs control groups of version 2 that it may make: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.End(time.Minute); err != nil {
			t.Error(err)
		}
	})
	return g
}

// run starts a script in a group.
func run(t *testing.T, g *Group, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestGroup_X01_EndsWhatWasDetachedInEveryWay(t *testing.T) {
	g := newGroup(t)
	child, err := g.Child("a")
	if err != nil {
		t.Fatal(err)
	}
	cmd := run(t, child, `(setsid env -i sleep 1000 &); (trap "" TERM HUP; sleep 1000) & exit 3`)
	_ = cmd.Wait()
	if alive, err := child.Alive(); !alive || err != nil {
		t.Errorf("alive %t, %v, while two sleep", alive, err)
	}
	if err := child.End(time.Minute); err != nil {
		t.Error(err)
	}
	if alive, err := g.Alive(); alive || err != nil {
		t.Errorf("alive %t, %v, after the end", alive, err)
	}
	if _, err := os.Stat(child.Dir()); err == nil {
		t.Error("its folder is left")
	}
}

func TestSweep_X02_EndsWhatNobodyHoldsAndNothingElse(t *testing.T) {
	held, left := newGroup(t), newGroup(t)
	if err := left.folder.Close(); err != nil { // as the kernel does when its holder dies
		t.Fatal(err)
	}
	dir := left.Dir()
	var err error
	if left, err = Open(dir); err != nil {
		t.Fatal(err)
	}
	child, err := left.Child("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"windlass-node.service", "windlass-", "x" + filepath.Base(dir), filepath.Base(dir) + "x"} {
		unit, err := create(filepath.Join(filepath.Dir(dir), name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unit.End(time.Minute); err != nil {
				t.Error(err)
			}
		})
		spared := run(t, unit, "sleep 1000")
		t.Cleanup(func() {
			if alive, err := unit.Alive(); !alive || err != nil {
				t.Errorf("%s, which is somebody else's: alive %t, %v", name, alive, err)
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
	if err := Sweep(time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := ended.Wait(); err == nil || ended.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("what nobody held: %v", err)
	}
	for { // somebody else who sweeps may be about to remove it
		if _, err := os.Stat(filepath.Dir(child.Dir())); err != nil {
			break
		}
		runtime.Gosched()
	}
	if alive, err := held.Alive(); !alive || err != nil {
		t.Errorf("what is held: alive %t, %v", alive, err)
	}
	if err := held.Kill(); err != nil {
		t.Error(err)
	}
	_ = lives.Wait()
}
