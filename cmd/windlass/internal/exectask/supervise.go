package exectask

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cgroup"
)

// SocketFD is the descriptor on which a supervisor finds its node.
const SocketFD = 3

// SuperviseMain runs a supervisor: it serves the node on the other end of the socket fd
// until that end closes, ends all runs, and returns the process's exit code. A program
// that uses Start must call it, and nothing else, when started with Config.Args:
//
//	os.Exit(exectask.SuperviseMain(exectask.SocketFD))
func SuperviseMain(fd int) int {
	if dir := os.Getenv(guardName); dir != "" {
		return guardMain(dir)
	}
	if err := supervise(fd); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func supervise(fd int) error {
	// One thread forks and one does the rest; more would only cost memory.
	runtime.GOMAXPROCS(2)
	if err := prepareSupervisor(); err != nil {
		return err
	}
	conn, err := socket(os.NewFile(uintptr(fd), "node"))
	if err != nil {
		return fmt.Errorf("descriptor %d is not a node's socket, a supervisor is started by a node only: %w", fd, err)
	}
	defer conn.Close()
	// The supervisor must survive a signal to its whole cgroup, such as systemd's stop, to
	// end the runs in order. The signals are caught because children inherit ignored ones.
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGQUIT)

	var group *cgroup.Group
	var guard *lifeline
	if dir := os.Getenv(groupName); dir != "" {
		group = cgroup.Inherit(groupFD, dir)
		syscall.CloseOnExec(groupFD)
		syscall.CloseOnExec(lifelineFD)
		if guard, err = newLifeline(); err != nil {
			return err
		}
	}
	l, err := newLoop(group, guard)
	if err != nil {
		return err
	}
	l.out.put(message{Kind: kindHello, Version: protocol})
	written := make(chan struct{})
	go func() { _ = l.out.drain(conn); close(written) }()
	go read(conn, l.inbound)
	l.run()
	l.out.close()
	// The node may be frozen; the runs are over either way.
	_ = conn.SetWriteDeadline(time.Now().Add(drainMax))
	<-written
	return nil
}

// socket makes a file the connection of node and supervisor.
func socket(f *os.File) (*net.UnixConn, error) {
	if f == nil {
		return nil, errors.New("not open")
	}
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	conn, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("not a unix socket")
	}
	return conn, nil
}
