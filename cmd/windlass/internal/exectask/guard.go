package exectask

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cgroup"
	"github.com/windlass-go/windlass/internal/clock"
)

// groupName is the variable with a supervisor's group. guardName makes a process the guard
// of a group.
const (
	groupName = reservedPrefix + "GROUP"
	guardName = reservedPrefix + "GUARD"
)

// The descriptors of a supervisor that has a group: the group's folder, locked as long as
// node or supervisor live, and the supervisor's end of the pipe that the guard reads.
const (
	groupFD    = stdioFD + 3
	lifelineFD = groupFD + 1
)

// guard is a process in a supervisor's group that ends the runs when supervisor and node
// are both dead, or when both are frozen and the deadline passes, since other nodes may then
// start the tasks. Its name differs from theirs, so that no pkill ends all three.
type guard struct {
	cmd      *exec.Cmd
	lifeline *os.File // the supervisor's end
}

// startGuard starts the guard of a group in that group, which fails where processes cannot
// be started in it.
func startGuard(g *cgroup.Group, cfg Config) (*guard, error) {
	program, err := ownProgram()
	if err != nil {
		return nil, err
	}
	theirs, lifeline, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	cmd := exec.Command(program, cfg.Args...)
	cmd.Args[0] = "guard-of-commands"
	cmd.Env = []string{guardName + "=" + g.Dir()}
	cmd.Stdin, cmd.Stderr = theirs, cfg.Stderr
	cmd.SysProcAttr = guardAttr(g)
	if err := cmd.Start(); err != nil {
		lifeline.Close()
		return nil, fmt.Errorf("start the guard of commands: %w", err)
	}
	return &guard{cmd, lifeline}, nil
}

const (
	// guardLate is how long after the hard deadline the guard ends what the supervisor should
	// have: less than the slack of a session.
	guardLate = 100 * time.Millisecond
	// guardTick bounds how late it notices that the machine was suspended.
	guardTick = time.Second
	// guardQuiet is how long it has had no news by then, since it was frozen itself: it then has
	// old ones to read, and the supervisor sends it the last one within a tick.
	guardQuiet = 3 * tick
)

// holdDeadline ends the runs when their deadline has passed, until no process has the other end
// of the lifeline.
func holdDeadline(news io.Reader, clocks clock.Clock, end func() error) {
	inbound := make(chan message)
	go read(news, inbound)
	// until is nil while there is nothing to end, until the next deadline is set.
	var until *deadline
	// heard is when the last news came, or this process went on after it was frozen; looked is when
	// it looked last. Both are readings of Boot.
	var heard, looked time.Duration
	failed := ""
	for {
		now := clocks.Read()
		if now.Boot-looked > guardTick+guardQuiet {
			heard = now.Boot
		}
		looked = now.Boot
		wait := guardTick
		if until != nil {
			until.look(now)
			wait = min(wait, max(min(until.Hard, never-guardLate)+guardLate, heard+guardQuiet)-now.Boot)
		}
		m, open, some := receive(inbound, wait)
		switch {
		case !open:
			return
		case some && m.Until != nil:
			until, heard = m.Until, clocks.Read().Boot
		case some || wait > 0:
		default:
			err := end()
			if err == nil {
				until = nil // the supervisor starts nothing before it has another deadline
				continue
			}
			heard = now.Boot + guardTick - guardQuiet // it tries again then
			if text := err.Error(); text != failed {
				failed = text
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
}

// receive waits for a message, which comes first if it is there.
func receive(inbound <-chan message, wait time.Duration) (m message, open, some bool) {
	select {
	case m, open = <-inbound:
		return m, open, true
	default:
	}
	if wait <= 0 {
		return m, true, false
	}
	select {
	case m, open = <-inbound:
		return m, open, true
	case <-time.After(wait):
		return m, true, false
	}
}

// lifeline is the supervisor's end of the pipe to its guard. A guard that is frozen does not block
// the supervisor: what does not fit is sent later, of several deadlines the last.
type lifeline struct {
	fd     int
	unsent []byte
}

func newLifeline() (*lifeline, error) {
	if err := syscall.SetNonblock(lifelineFD, true); err != nil {
		return nil, fmt.Errorf("the pipe to the guard of commands: %w", err)
	}
	return &lifeline{fd: lifelineFD}, nil
}

// tell sends a deadline.
func (l *lifeline) tell(until deadline) {
	if l == nil {
		return
	}
	frame, err := encode(message{Kind: kindDeadline, Until: &until})
	if err != nil {
		return // cannot be: three numbers
	}
	l.unsent = frame
	l.flush()
}

// flush sends what did not fit. So little is written whole or not at all.
func (l *lifeline) flush() {
	if l == nil || l.unsent == nil {
		return
	}
	if _, err := syscall.Write(l.fd, l.unsent); !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR) {
		l.unsent = nil // it has it, or is dead
	}
}

// guardMain runs a guard and returns the process's exit code.
func guardMain(dir string) int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	holdDeadline(os.Stdin, clock.Machine, func() error { return cgroup.KillBelow(dir) })
	all, err := cgroup.Open(dir)
	if err != nil {
		return 0 // the node has ended it
	}
	// Out of the group, which can then be ended and removed.
	if err := cgroup.Move(os.Getpid(), filepath.Dir(dir)); err != nil {
		_ = all.Kill() // with the guard in it
		return 1
	}
	if err := all.End(sweepMax); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
