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

type commandError struct {
	// of names the command, or its job.
	of   string
	text string
	code int
}

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

// run runs the command. input opens its standard input; with keep its standard output is kept.
func (c *supervised) run(ctx context.Context, task string, token int64, environ []string, keep bool, input func(*streams) error) (result exectask.Result, output *keptOutput, err error) {
	s, err := c.openStreams(keep)
	if err != nil {
		return result, nil, err
	}
	defer s.close() // after the supervisor, which has the pipes open, too
	if err := input(s); err != nil {
		return result, nil, err
	}
	supervisor, err := exectask.Start(ctx, exectask.Config{
		Args: []string{supervisorUse}, Node: c.node, Stdio: &s.files, Grace: commandGrace(c.timing),
	})
	if err != nil {
		return result, nil, err
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
	return result, &s.output, errors.Join(err, supervisor.Close())
}
