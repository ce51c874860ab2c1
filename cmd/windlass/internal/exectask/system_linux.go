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

// Available says whether this system can run commands for tasks: Linux with a
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

// ownProgram is the file to start again. The link is used as it is: it leads
// to this very binary even after an upgrade has replaced the file on disk.
func ownProgram() (string, error) { return "/proc/self/exe", nil }

// prepareSupervisor makes orphans of every run children of this process, so
// that none can leave by forking twice, and keeps the files of the node that
// were opened without care from reaching the runs.
func prepareSupervisor() error {
	// Best effort: the call is younger than the oldest kernels we run on.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become child subreaper: %w", err)
	}
	return nil
}

// prepareForker forbids new privileges to all that this thread forks. A set-uid
// program could neither be signalled by us nor would it keep its death signal.
func prepareForker() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// othersNeed are the rights by which processes of another user are started, found and ended.
var othersNeed = []struct {
	name string
	bit  int
}{
	{"CAP_SETUID", unix.CAP_SETUID}, {"CAP_SETGID", unix.CAP_SETGID}, {"CAP_KILL", unix.CAP_KILL},
	{"CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE}, {"CAP_DAC_READ_SEARCH", unix.CAP_DAC_READ_SEARCH},
}

// mayBecomeOthers says which of those this process lacks. It must be root's: one that is not
// takes its rights along when it becomes another, until it starts the program.
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

// leaveRights takes from this thread what a command of another user would inherit of root's:
// the keys of its session, and ambient capabilities.
func leaveRights() error {
	// Where a filter refuses this, it refuses the commands the use of keys as well.
	_, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0)
	if err != nil && !errors.Is(err, syscall.ENOSYS) && !errors.Is(err, syscall.EPERM) {
		return fmt.Errorf("leave the session's keys: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear the ambient capabilities: %w", err)
	}
	return nil
}

// ownOutput lets a user open /dev/stdout, which here opens the pipe anew.
func ownOutput(pipe int, as *User) error { return syscall.Fchown(pipe, int(as.UID), int(as.GID)) }

// childAttr gives a child its own process group, and SIGKILL when the
// supervisor dies, and starts it in a control group if there is one.
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

// awaitEnd waits for the end of a child that somebody else waits for later.
func awaitEnd(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == syscall.EINTR {
	}
}

// leaders knows which programs have ended. On Linux it asks without reaping:
// as long as the program is a zombie its number, which is also its group's,
// cannot go to a stranger, and killing the group stays safe.
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

// lostStatus stands for a status that somebody else took: exit code 255, as an
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

// signal sends sig to the process that p was read from, never to a later one
// with the same number: the descriptor pins it, the start time identifies it.
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

// signalByNumber is for kernels before 5.3; a number can be taken over between
// the two calls.
func (p proc) signalByNumber(sig syscall.Signal) error {
	if now, err := readStat(p.pid); err != nil || now.start != p.start {
		return syscall.ESRCH
	}
	return syscall.Kill(p.pid, sig)
}

func procPath(pid int, file string) string {
	return "/proc/" + strconv.Itoa(pid) + "/" + file
}

// identity is this process as /proc shows it.
func identity() proc {
	p, err := readStat(os.Getpid())
	if err != nil {
		return proc{pid: os.Getpid()}
	}
	return p
}
