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

// forker starts every run of this process from one thread that never ends: the kernel ties
// a child's death signal to the thread that forked it, and no_new_privs is set for that
// thread. It sends to ready whether the thread could be prepared.
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

// launch starts a run, in a group of its own below all if that is not nil.
func launch(null uintptr, r *run, all *cgroup.Group) forked {
	f := forked{run: r}
	if all != nil {
		if f.group, f.err = all.Child(r.id); f.err != nil {
			return f
		}
	}
	f.pid, f.pipe, f.err = fork(null, r.order, f.group)
	if f.err != nil && f.group != nil {
		_ = f.group.Remove() // after an error the end of all removes it
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

// fork starts one command. Its standard input is null and its outputs go to a new pipe,
// unless the order has Stdio.
func fork(null uintptr, order *startOrder, group *cgroup.Group) (int, *os.File, error) {
	path, dir := string(order.Path), string(order.Dir)
	if as := order.User; as != nil {
		// No startable: it would look into folders that are closed to the user.
		if dir == "" {
			dir = "/" // the node's own may be closed to the user too
		}
		if err := leaveRights(); err != nil {
			return 0, nil, err
		}
	} else if err := startable(path, dir); err != nil {
		return 0, nil, err
	}
	pipe, output, err := os.Pipe()
	if err != nil {
		return 0, nil, fmt.Errorf("pipe: %w", err)
	}
	defer output.Close()
	outputFD := output.Fd() // which is blocking from here on, as programs expect
	if as := order.User; as != nil {
		if err := ownOutput(int(outputFD), as); err != nil {
			pipe.Close()
			return 0, nil, fmt.Errorf("pipe: %w", err)
		}
	}
	pid, err := syscall.ForkExec(path, toStrings(order.Argv), &syscall.ProcAttr{
		Dir:   dir,
		Env:   toStrings(order.Env),
		Files: order.files(null, outputFD),
		Sys:   childAttr(group, order.User),
	})
	if err != nil {
		pipe.Close()
		return 0, nil, explain(path, dir, order.User, err)
	}
	return pid, pipe, nil
}

// startable returns what is wrong with the program or the folder. The kernel's errors do
// not say which of the two it is.
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

// explain adds the usual cause to the kernel's error of a start.
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
