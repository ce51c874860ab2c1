//go:build !linux

package exectask

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cgroup"
)

// Available returns an error unless this system can run commands for tasks. Systems other
// than Linux give the weaker guarantees in doc.go.
func Available() error {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) != nil {
		return ErrUnavailable
	}
	return nil
}

func ownProgram() (string, error) { return os.Executable() }

func prepareSupervisor() error { return nil }

func prepareForker() error { return nil }

func leaveRights() error { return nil }

func ownOutput(int, *User) error { return nil }

func mayBecomeOthers() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can start commands as others")
	}
	return nil
}

func childAttr(_ *cgroup.Group, as *User) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as.credential()}
}

func guardAttr(*cgroup.Group) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// awaitEnd does nothing: no session is swept by the ID of its process.
func awaitEnd(int) {}

// leaders finds programs that have ended. Here it has to reap them, so it keeps the status
// until it is needed; another group may get the process ID meanwhile.
type leaders struct{ status map[int]syscall.WaitStatus }

func newLeaders() *leaders { return &leaders{status: map[int]syscall.WaitStatus{}} }

func (l *leaders) ended(pid int) bool {
	if _, ok := l.status[pid]; ok {
		return true
	}
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	if got != pid && err != syscall.ECHILD {
		return false
	}
	l.status[pid] = status
	return true
}

func (l *leaders) reap(pid int) syscall.WaitStatus {
	status := l.status[pid]
	delete(l.status, pid)
	return status
}

func waitFor(int) syscall.WaitStatus { return 0 }

// measures reports whether this system says what a process uses, which it does not without
// a library of C.
const measures = false

// proc is a process group, since processes cannot be listed.
type proc struct {
	pid, ppid, pgrp, sid int
	start                uint64
	cpu                  time.Duration
	memory               int64
	zombie, dying        bool
	owner, marker        string
}

func (p proc) signal(sig syscall.Signal) error { return syscall.Kill(-p.pgrp, sig) }

// scan returns one proc for each group that still has a process.
func scan(runs map[int]string) ([]proc, error) {
	var found []proc
	for pid, id := range runs {
		if syscall.Kill(-pid, 0) == nil {
			found = append(found, proc{pid: -1, pgrp: pid, owner: id})
		}
	}
	return found, nil
}

// sweep kills the groups of the runs of a lost supervisor.
func sweep(_ int, runs map[string]int) int {
	end := time.Now().Add(sweepMax)
	left := 1
	for left > 0 && time.Now().Before(end) {
		left = 0
		for _, pid := range runs {
			if pid > 0 && syscall.Kill(-pid, syscall.SIGKILL) == nil {
				left++
			}
		}
		time.Sleep(scanPauseMin)
	}
	return left
}

func identity() proc { return proc{pid: os.Getpid()} }
