package exectask

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cgroup"
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
// are both dead, since other nodes may then start the tasks. Its name differs from theirs,
// so that no pkill ends all three.
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

// guardMain runs a guard and returns the process's exit code.
func guardMain(dir string) int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	_, _ = io.Copy(io.Discard, os.Stdin) // until no process has the other end
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
