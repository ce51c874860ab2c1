package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/tree"
)

// takenError is about a job that was taken away: killed, deleted, released or paused
// by a command, or lost to the broker. Others can be worked on after it.
type takenError struct{ error }

// Unwrap makes the cause visible.
func (e takenError) Unwrap() error { return e.error }

// settleMax bounds how long the end of a job is tried to be stored.
const settleMax = 30 * time.Second

// jobWorker runs a command with jobs that its node takes.
type jobWorker struct {
	app      *app
	flags    dequeueFlags
	node     *windlass.Node
	commands *supervised
	timing   session.Timing
}

// dequeueInto takes jobs and runs a command with each.
func (a *app) dequeueInto(ctx context.Context, f dequeueFlags) error {
	commands, err := a.newSupervised(f.nodeName, f.command, session.Derive(f.sessionTTL))
	if err != nil {
		return err
	}
	b, err := a.broker.open(ctx)
	if err != nil {
		return err
	}
	outliveReaders()
	w := &jobWorker{app: a, flags: f, commands: commands, timing: session.Derive(f.sessionTTL)}
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
		Version: view.BuildVersion().Version, Events: events, Renewed: commands.renewed,
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
		err = keepFirst(err, w.commands.flush(ctx))
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
		return errors.Join(&commandError{of: "job " + job.ID(), text: text, code: exitFailed}, job.Fail(settling, errors.New(text)))
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
		failed := newCommandError("job "+job.ID(), result)
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

// run runs the command with a job, and returns the output if that is to be kept.
func (w *jobWorker) run(ctx context.Context, job *windlass.Dequeued) (result exectask.Result, output *keptOutput, err error) {
	s, err := w.commands.openStreams(w.flags.result)
	if err != nil {
		return result, nil, err
	}
	if err := s.feed(job.Props()); err != nil {
		s.close()
		return result, nil, err
	}
	result, err = w.commands.run(ctx, job.ID(), job.Token(), jobEnviron(job), s)
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
