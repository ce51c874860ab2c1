package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/exectask"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/tree"
)

// commandError is a command that did not end with code 0, for a job that has failed
// by that.
type commandError struct {
	job  string
	text string
	code int
}

// Error implements error.
func (e *commandError) Error() string { return fmt.Sprintf("job %s failed: %s", e.job, e.text) }

// takenError is about a job that was taken away: killed, deleted, released or paused
// by a command, or lost to the broker. Others can be worked on after it.
type takenError struct{ error }

// Unwrap makes the cause visible.
func (e takenError) Unwrap() error { return e.error }

// settleMax bounds how long the end of a job is tried to be stored.
const settleMax = 30 * time.Second

// jobWorker runs a command with jobs that its node takes.
type jobWorker struct {
	app   *app
	flags dequeueFlags
	node  *windlass.Node
	// path of the program.
	path   string
	timing session.Timing
	// out and err are where the command writes to.
	out, err *relay

	mu         sync.Mutex
	supervisor *exectask.Supervisor // of the job that is worked on, nil for none
	stop, hard time.Duration        // the deadlines that it was told last, or is to be told
}

// dequeueInto takes jobs and runs a command with each.
func (a *app) dequeueInto(ctx context.Context, f dequeueFlags) error {
	path, err := exec.LookPath(f.command[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return usagef("command %q: %w", f.command[0], err)
	}
	b, err := a.broker.open(ctx)
	if err != nil {
		return err
	}
	outliveReaders()
	w := &jobWorker{
		app: a, flags: f, path: path, timing: session.Derive(f.sessionTTL),
		out: a.newRelay("standard output", a.out), err: a.newRelay("standard error", a.err),
	}
	level := slog.LevelWarn
	if f.verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
	events := windlass.LogEvents(log)
	if !f.verbose {
		events.Errored = nil // which is what this command ends with
	}
	w.node, err = windlass.NewNode(windlass.Config{
		Broker: b, Namespace: a.namespace, Name: f.nodeName, Pulls: []string{f.jobType}, SessionTTL: f.sessionTTL,
		Version: buildVersion().Version, Events: events, Renewed: w.renewed,
		Fence: func(overdue func() []string) { exitIfOverdue(log, overdue, w.timing.Slack) },
	})
	if err != nil {
		return errors.Join(err, b.Close())
	}
	// The node outlives ctx: what is held has to be given back.
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	var left error
	running.Go(func() { left = w.node.Run(working) })
	err = w.work(ctx)
	stop()
	running.Wait()
	if errors.Is(err, windlass.ErrNotRunning) && left != nil {
		err = nil // which says why
	}
	return errors.Join(awaitable(err), left, b.Close())
}

// renewed passes on until when the command may run.
func (w *jobWorker) renewed(stop, hard time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stop, w.hard = stop, hard
	if w.supervisor != nil {
		w.supervisor.SetDeadline(stop, hard)
	}
}

// work takes one job after the other. Of those that fail, or are taken away, the
// first one is returned in the end; anything else that goes wrong ends it.
func (w *jobWorker) work(ctx context.Context) error {
	take := w.node.TryDequeue
	if w.flags.wait {
		take = w.node.Dequeue
	}
	var failed error
	for taken := 0; w.flags.all || taken < w.flags.count; taken++ {
		job, err := take(ctx, w.flags.jobType)
		switch {
		case errors.Is(err, windlass.ErrEmpty) && taken > 0:
			return failed
		case err != nil:
			return err
		}
		err = w.workOn(ctx, job)
		// Or what one job after the other writes would pile up here.
		err = keepFirst(err, errors.Join(w.out.flush(ctx), w.err.flush(ctx)))
		switch {
		case ofOneJob(err):
			if w.flags.all || w.flags.count > 1 {
				fmt.Fprintln(w.app.err, "windlass:", err)
			}
			failed = keepFirst(failed, err)
		case err != nil:
			return err
		}
	}
	return failed
}

// ofOneJob tells of an error that it says nothing about other jobs.
func ofOneJob(err error) bool {
	var command *commandError
	var taken takenError
	return errors.As(err, &command) || errors.As(err, &taken)
}

// workOn runs the command with a job, and ends the job.
func (w *jobWorker) workOn(ctx context.Context, job *windlass.Dequeued) error {
	running, cancel := context.WithCancelCause(job.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(ctx.Err()) })()
	result, output, err := w.run(running, job)
	settling, done := context.WithTimeout(context.WithoutCancel(ctx), settleMax)
	defer done()
	cause := context.Cause(job.Context())
	switch {
	case ctx.Err() != nil:
		return errors.Join(ctx.Err(), job.Release(settling))
	case errors.Is(cause, windlass.ErrTimeout):
		text := result.String()
		if err != nil {
			text = err.Error()
		}
		return errors.Join(&commandError{job: job.ID(), text: text, code: exitFailed}, job.Fail(settling, errors.New(text)))
	case cause != nil:
		taken := takenError{fmt.Errorf("task %q: %w", job.ID(), cause)}
		released := job.Release(settling)
		if settling.Err() == nil {
			released = nil // it says the same as the cause, or less
		}
		return errors.Join(taken, released)
	case err != nil: // it was not started, which is not the job's fault
		return errors.Join(err, job.Release(settling))
	case result.Why == exectask.WhyDeadline: // and the news of that has not got here yet
		return errors.Join(takenError{fmt.Errorf("task %q: %w", job.ID(), session.ErrDeadline)}, job.Release(settling))
	case result.Why != exectask.WhyExited:
		return errors.Join(takenError{fmt.Errorf("task %q: %w", job.ID(), windlass.ErrLost)}, job.Release(settling))
	case !result.OK():
		failed := &commandError{job: job.ID(), text: result.String(), code: codeOf(result)}
		return errors.Join(failed, job.Fail(settling, errors.New(result.String())))
	}
	w.keepResult(job, output)
	return ending(settling, job.Complete(settling))
}

// ending is what it means that a job could not be completed.
func ending(settling context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case settling.Err() != nil:
		return fmt.Errorf("what became of it could not be stored within %v: %w: %w", settleMax, broker.ErrUnavailable, err)
	}
	return takenError{err}
}

// codeOf is the exit code of a command, as a shell tells it.
func codeOf(r exectask.Result) int {
	if r.Signal != "" {
		const signalled = 128
		return signalled + int(unix.SignalNum(r.Signal))
	}
	return r.Code
}

// keepResult keeps what the command has written, if that can be a result.
func (w *jobWorker) keepResult(job *windlass.Dequeued, output *keptOutput) {
	if !w.flags.result {
		return
	}
	content, err := output.json()
	if err == nil {
		err = job.SetResult(content)
	}
	if err != nil {
		fmt.Fprintf(w.app.err, "windlass: job %s: its output is not kept as its result: %v\n", printable(job.ID()), err)
	}
}

// run runs the command under a supervisor of its own, which ends it with all that
// it has started when this process is killed or frozen, as it does for exec tasks.
// It returns the output if that is to be kept.
func (w *jobWorker) run(ctx context.Context, job *windlass.Dequeued) (result exectask.Result, output *keptOutput, err error) {
	s, err := w.openStreams(job.Props())
	if err != nil {
		return result, nil, err
	}
	supervisor, err := exectask.Start(ctx, exectask.Config{
		Args: []string{supervisorUse}, Node: w.flags.nodeName, Stdio: &s.files,
		// Killing must be over before the session's grace is.
		Grace: w.timing.Grace * 3 / 4,
	})
	if err != nil {
		s.close()
		return result, nil, err
	}
	w.mu.Lock()
	w.supervisor = supervisor
	supervisor.SetDeadline(w.stop, w.hard)
	w.mu.Unlock()
	result, err = supervisor.Run(ctx, exectask.Command{
		Task: job.ID(), Token: strconv.FormatInt(job.Token(), 10), Path: w.path, Argv: w.flags.command, Environ: jobEnviron(job),
	})
	w.mu.Lock()
	w.supervisor = nil
	w.mu.Unlock()
	err = errors.Join(err, supervisor.Close()) // it has the pipes open, too
	s.close()
	return result, &s.output, err
}

// jobEnviron is this process's environment, with what a command may know of its
// job.
func jobEnviron(job *windlass.Dequeued) []string {
	name, path := "", job.ID()
	if p, err := tree.ParsePath(job.ID()); err == nil {
		name, path = p.Name(), string(p)
	}
	return append(os.Environ(),
		"WINDLASS_JOB_ID="+job.ID(), "WINDLASS_JOB_PATH="+path, "WINDLASS_JOB_NAME="+name,
		"WINDLASS_JOB_TYPE="+job.Spec().Type, "WINDLASS_JOB_TOKEN="+strconv.FormatInt(job.Token(), 10))
}
