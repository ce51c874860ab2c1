package exectask

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cgroup"
)

// forked is the outcome of one start.
type forked struct {
	run   *run
	pid   int
	pipe  *os.File      // the run's output
	group *cgroup.Group // the run's own, nil for none
	err   error
}

// forker starts every run of this process from one thread that never ends. The
// kernel ties a child's death signal to the thread that forked it, and the
// locked thread is also where no_new_privs is set. Its ready channel tells
// whether the thread could be prepared.
func forker(ready chan<- error, orders <-chan *run, results chan<- forked, all *cgroup.Group) {
	runtime.LockOSThread()
	null, err := os.OpenFile(os.DevNull, os.O_RDONLY, 0)
	if err == nil {
		err = prepareForker()
	}
	ready <- err
	for r := range orders {
		results <- launch(null.Fd(), r, all)
	}
}

// launch starts a run in a group of its own below that of all, if there is that.
func launch(null uintptr, r *run, all *cgroup.Group) forked {
	f := forked{run: r}
	if all != nil {
		if f.group, f.err = all.Child(r.id); f.err != nil {
			return f
		}
	}
	f.pid, f.pipe, f.err = fork(null, r.order, f.group)
	if f.err != nil && f.group != nil {
		_ = f.group.Remove() // the end of all removes it otherwise
	}
	return f
}

// stdioFD is the first of the three descriptors at which a supervisor finds
// Config.Stdio.
const stdioFD = SocketFD + 1

// files are standard input, output and error of a command.
func (o *startOrder) files(null, output uintptr) []uintptr {
	if !o.Stdio {
		return []uintptr{null, output, output}
	}
	files := []uintptr{stdioFD, stdioFD + 1, stdioFD + 2}
	for _, fd := range files {
		syscall.CloseOnExec(int(fd)) // what it gets are copies
	}
	return files
}

// fork starts one command with standard input from null and both outputs into
// a new pipe, or with those that the order names.
func fork(null uintptr, order *startOrder, group *cgroup.Group) (int, *os.File, error) {
	path, dir := string(order.Path), string(order.Dir)
	if as := order.User; as != nil {
		// What root finds in folders that are closed to the user, the user must not learn.
		if dir == "" {
			dir = "/" // the node's own may be closed to it as well
		}
		if err := leaveRights(); err != nil {
			return 0, nil, err
		}
	} else if err := startable(path, dir); err != nil {
		return 0, nil, err
	}
	var ends [2]int
	if err := syscall.Pipe(ends[:]); err != nil {
		return 0, nil, fmt.Errorf("pipe: %w", err)
	}
	// No other goroutine of this process forks, so nothing inherits the ends
	// between their making and these calls.
	syscall.CloseOnExec(ends[0])
	syscall.CloseOnExec(ends[1])
	defer syscall.Close(ends[1])
	// Non-blocking before os.NewFile sees it, so that reads can time out. The
	// other end has its own flag and stays as programs expect it.
	if err := syscall.SetNonblock(ends[0], true); err != nil {
		syscall.Close(ends[0])
		return 0, nil, fmt.Errorf("pipe: %w", err)
	}
	if as := order.User; as != nil {
		if err := ownOutput(ends[1], as); err != nil {
			syscall.Close(ends[0])
			return 0, nil, fmt.Errorf("pipe: %w", err)
		}
	}
	pid, err := syscall.ForkExec(path, toStrings(order.Argv), &syscall.ProcAttr{
		Dir:   dir,
		Env:   toStrings(order.Env),
		Files: order.files(null, uintptr(ends[1])),
		Sys:   childAttr(group, order.User),
	})
	if err != nil {
		syscall.Close(ends[0])
		return 0, nil, explain(path, dir, order.User, err)
	}
	return pid, os.NewFile(uintptr(ends[0]), "output"), nil
}

// startable names what is wrong with the program or the folder. The kernel
// reports both with the same few numbers, so they are looked at beforehand.
func startable(path, dir string) error {
	if dir != "" {
		info, err := os.Stat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("dir %q: does not exist", dir)
		case err != nil:
			return fmt.Errorf("dir %q: %w", dir, errors.Unwrap(err))
		case !info.IsDir():
			return fmt.Errorf("dir %q: is not a folder", dir)
		case syscall.Access(dir, 1) != nil:
			return fmt.Errorf("dir %q: may not be entered, mode is %s", dir, info.Mode())
		}
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("command %q: not found", path)
	case err != nil:
		return fmt.Errorf("command %q: %w", path, errors.Unwrap(err))
	case info.IsDir():
		return fmt.Errorf("command %q: is a folder", path)
	case syscall.Access(path, 1) != nil:
		return fmt.Errorf("command %q: not executable, mode is %s", path, info.Mode())
	}
	return nil
}

// explain adds the usual cause to what the kernel says of a start.
func explain(path, dir string, as *User, err error) error {
	switch {
	case as != nil && (errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR)):
		return fmt.Errorf("command %q: %w for user %s, to start it or to enter the folder %q", path, err, as.Name, dir)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("command %q: %w; a script needs a first line such as #!/bin/sh", path, err)
	case errors.Is(err, syscall.ENOENT):
		return fmt.Errorf("command %q: %w; the interpreter that it names is missing", path, err)
	case errors.Is(err, syscall.EAGAIN):
		return fmt.Errorf("command %q: %w; the limit of processes (ulimit -u) may be reached", path, err)
	}
	return fmt.Errorf("command %q: %w", path, err)
}
