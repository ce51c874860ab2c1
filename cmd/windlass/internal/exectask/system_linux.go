package exectask

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cgroup"
)

// Available returns an error unless this system can run commands for tasks: Linux with a
// /proc that shows a process its own children.
func Available() error {
	self, err := readStat(os.Getpid())
	if err != nil || self.pid != os.Getpid() {
		return fmt.Errorf("%w: /proc/self/stat cannot be read (%v); processes that leave their group would not be found", ErrUnavailable, err)
	}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return fmt.Errorf("%w: CLOCK_BOOTTIME: %w", ErrUnavailable, err)
	}
	return nil
}

// ownProgram returns the file to start again. The link leads to this binary even after an
// upgrade has replaced the file.
func ownProgram() (string, error) { return "/proc/self/exe", nil }

// prepareSupervisor makes orphans of all runs children of this process, so that none can
// leave by a double fork, and keeps inherited files of the node from the runs.
func prepareSupervisor() error {
	// The oldest supported kernels do not have this call.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become child subreaper: %w", err)
	}
	return nil
}

// prepareForker sets no_new_privs for all that this thread forks: a set-uid program would
// lose its death signal, and could not be signalled.
func prepareForker() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// othersNeed are the capabilities to start, find and end processes of another user.
var othersNeed = []struct {
	name string
	bit  int
}{
	{"CAP_SETUID", unix.CAP_SETUID}, {"CAP_SETGID", unix.CAP_SETGID}, {"CAP_KILL", unix.CAP_KILL},
	{"CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE}, {"CAP_DAC_READ_SEARCH", unix.CAP_DAC_READ_SEARCH},
}

// mayBecomeOthers returns an error if this process lacks one of those, or is not root's: a
// child of another process would keep its capabilities until its exec.
func mayBecomeOthers() error {
	if os.Geteuid() != 0 {
		return errors.New("only root can start commands as others")
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return fmt.Errorf("the rights of this process cannot be read: %w", err)
	}
	var lacks []string
	for _, c := range othersNeed {
		if sets[c.bit/32].Effective&(1<<(c.bit%32)) == 0 {
			lacks = append(lacks, c.name)
		}
	}
	if len(lacks) > 0 {
		return fmt.Errorf("this process, though root's, lacks %s", strings.Join(lacks, ", "))
	}
	return nil
}

// leaveRights takes from this thread what a command of another user would inherit from
// root: session keys and ambient capabilities.
func leaveRights() error {
	// A system call filter that refuses this also refuses commands the use of keys.
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err != nil && !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("leave the session's keys: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear the ambient capabilities: %w", err)
	}
	return nil
}

// ownOutput lets a user open /dev/stdout, which reopens the pipe.
func ownOutput(pipe int, as *User) error { return syscall.Fchown(pipe, int(as.UID), int(as.GID)) }

// childAttr gives a child its own process group, SIGKILL when the supervisor dies, and its
// control group if there is one.
func childAttr(g *cgroup.Group, as *User) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: as.credential()}
	if g != nil {
		attr.UseCgroupFD, attr.CgroupFD = true, g.FD()
	}
	return attr
}

// guardAttr gives a guard a session of its own, in the group that it guards.
func guardAttr(g *cgroup.Group) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, UseCgroupFD: true, CgroupFD: g.FD()}
}

// awaitEnd waits for the end of a child without reaping it.
func awaitEnd(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == syscall.EINTR {
	}
}

// leaders finds programs that have ended. On Linux it does not reap them: as long as the
// program is a zombie, no other group can get its process ID, and killing its group is
// safe.
type leaders struct{}

func newLeaders() *leaders { return &leaders{} }

func (*leaders) ended(pid int) bool {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err != syscall.EINTR {
			// Signo stays zero when nothing has ended yet.
			return errors.Is(err, syscall.ECHILD) || err == nil && info.Signo != 0
		}
	}
}

func (*leaders) reap(pid int) syscall.WaitStatus { return waitFor(pid) }

// lostStatus is the status of a child that was reaped elsewhere: exit code 255, since an
// unknown end must not look like success.
const lostStatus = syscall.WaitStatus(255 << 8)

// waitFor reaps a child that has ended.
func waitFor(pid int) syscall.WaitStatus {
	var status syscall.WaitStatus
	for {
		got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case got != pid:
			return lostStatus
		default:
			return status
		}
	}
}

// signal sends sig to the process that p was read from, never to a later one with the same
// ID: the descriptor pins the process, and the start time identifies it.
func (p proc) signal(sig syscall.Signal) error {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if errors.Is(err, syscall.ENOSYS) {
		return p.signalByNumber(sig)
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if now, err := readStat(p.pid); err != nil || now.start != p.start {
		return syscall.ESRCH
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// signalByNumber is for kernels before 5.3. Another process can get the ID between the two
// calls.
func (p proc) signalByNumber(sig syscall.Signal) error {
	if now, err := readStat(p.pid); err != nil || now.start != p.start {
		return syscall.ESRCH
	}
	return syscall.Kill(p.pid, sig)
}

func procPath(pid int, file string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + file
}

// identity returns this process as in /proc.
func identity() proc {
	p, err := readStat(os.Getpid())
	if err != nil {
		return proc{pid: os.Getpid()}
	}
	return p
}
