package cli

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/session"
)

// commandError says that a command did not end with code 0.
type commandError struct {
	// of names the command, or its job.
	of   string
	text string
	code int
}

// Error implements error.
func (e *commandError) Error() string { return fmt.Sprintf("%s failed: %s", e.of, e.text) }

func newCommandError(of string, r exectask.Result) *commandError {
	e := &commandError{of: of, text: r.String(), code: r.Code}
	if r.Signal != "" { // as a shell does
		const signalled = 128
		e.code = signalled + int(unix.SignalNum(r.Signal))
	}
	return e
}

// supervised runs a command again and again, never twice at once, as long as a session
// lasts. Each run has a supervisor, which ends the command and all that it has started
// when this process is killed or frozen, as for exec tasks.
type supervised struct {
	// node is who runs it.
	node string
	// path of the program, with its arguments.
	path   string
	argv   []string
	timing session.Timing
	// out and err are where the command writes to.
	out, err *relay

	mu         sync.Mutex
	supervisor *exectask.Supervisor // of the current run, nil for none
	stop, hard time.Duration        // the latest deadlines
}

// newSupervised looks up the program of a command.
func (a *app) newSupervised(node string, command []string, timing session.Timing) (*supervised, error) {
	path, err := exec.LookPath(command[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, usagef("command %q: %w", command[0], err)
	}
	return &supervised{
		node: node, path: path, argv: command, timing: timing,
		out: a.newRelay("standard output", a.out), err: a.newRelay("standard error", a.err),
	}, nil
}

// renewed passes on the deadlines of the session.
func (c *supervised) renewed(stop, hard time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop, c.hard = stop, hard
	if c.supervisor != nil {
		c.supervisor.SetDeadline(stop, hard)
	}
}

// flush returns when the output of the command has been passed on.
func (c *supervised) flush(ctx context.Context) error {
	return errors.Join(c.out.flush(ctx), c.err.flush(ctx))
}

// run runs the command on streams, which it closes.
func (c *supervised) run(ctx context.Context, task string, token int64, environ []string, s *streams) (result exectask.Result, err error) {
	supervisor, err := exectask.Start(ctx, exectask.Config{
		Args: []string{supervisorUse}, Node: c.node, Stdio: &s.files,
		Grace: commandGrace(c.timing),
	})
	if err != nil {
		s.close()
		return result, err
	}
	c.mu.Lock()
	c.supervisor = supervisor
	supervisor.SetDeadline(c.stop, c.hard)
	c.mu.Unlock()
	result, err = supervisor.Run(ctx, exectask.Command{
		Task: task, Token: strconv.FormatInt(token, 10), Path: c.path, Argv: c.argv, Environ: environ,
	})
	c.mu.Lock()
	c.supervisor = nil
	c.mu.Unlock()
	err = errors.Join(err, supervisor.Close()) // it has the pipes open, too
	s.close()
	return result, err
}
