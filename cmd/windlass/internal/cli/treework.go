package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/tree"
)

// takenError is about a job that was taken away: killed, deleted, released or paused by a
// command, or lost. Other jobs can still be worked on.
type takenError struct{ error }

func (e takenError) Unwrap() error { return e.error }

// settleMax bounds the attempts to store the end of a job.
const settleMax = 30 * time.Second

// jobWorker runs a command for each job that its node takes.
type jobWorker struct {
	app      *app
	flags    dequeueFlags
	broker   broker.Broker
	space    keys.Space
	node     *windlass.Node
	commands *supervised
	// nameless is set while the node waits for its name, which a process that has died may hold.
	nameless atomic.Bool
	// settling is until when the jobs of a dead node may be left alone.
	settling time.Time
}

func (a *app) dequeueInto(ctx context.Context, f dequeueFlags) error {
	timing := session.Derive(f.sessionTTL)
	commands, err := a.newSupervised(f.nodeName, f.command, timing)
	if err != nil {
		return err
	}
	b, err := a.broker.open(ctx)
	if err != nil {
		return err
	}
	outliveReaders()
	w := &jobWorker{app: a, flags: f, broker: b, commands: commands}
	log := a.logger(slog.LevelWarn, f.verbose)
	told := events.Log(log)
	if !f.verbose {
		told.Errored = nil // this command ends with that error
	}
	told = w.noted(told)
	w.space, err = a.space()
	if err != nil {
		return errors.Join(err, b.Close())
	}
	w.node, err = windlass.NewNode(windlass.Config{
		Broker: b, Namespace: a.namespace, Name: f.nodeName, Pulls: []string{f.jobType}, SessionTTL: f.sessionTTL, ShutdownGrace: shutdownGrace(timing),
		Version: view.BuildVersion().Version, Events: told, Renewed: commands.renewed,
		Fence: func(overdue func() []string) { exitIfOverdue(log, overdue, timing.Slack) },
	})
	if err != nil {
		return errors.Join(err, b.Close())
	}
	err, ended := beside(ctx, w.node.Run, w.work)
	if errors.Is(err, windlass.ErrNotRunning) && ended != nil {
		err = nil // ended says why
	}
	return errors.Join(awaitable(err), ended, b.Close())
}

// work takes one job after the other. It returns the error of the first job that failed
// or was taken away, after all of them; any other error ends it.
func (w *jobWorker) work(ctx context.Context) error {
	take := w.tryTake
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
		// The output of several jobs must not pile up here.
		err = cmp.Or(w.workOn(ctx, job), w.commands.flush(ctx))
		switch {
		case is[*commandError](err) || is[takenError](err): // it says nothing about other jobs
			if w.flags.all || w.flags.count > 1 {
				fmt.Fprintln(w.app.err, "windlass:", err)
			}
			failed = cmp.Or(failed, err)
		case err != nil:
			return err
		}
	}
	return failed
}

// tryTake takes a job if there is one. What a dead node holds is one as soon as its session is over.
func (w *jobWorker) tryTake(ctx context.Context, jobType string) (*windlass.Dequeued, error) {
	job, err := w.node.TryDequeue(ctx, jobType)
	for errors.Is(err, windlass.ErrEmpty) && w.nameless.Load() { // each takes seconds, and one finds that the node has ended
		job, err = w.node.TryDequeue(ctx, jobType)
		w.settling = time.Now().Add(settleDeath)
	}
	if !errors.Is(err, windlass.ErrEmpty) {
		return job, err
	}
	gone, err := awaitHolders(ctx, w.broker, w.space, jobType, w.flags.nodeName)
	switch {
	case err != nil:
		return nil, err
	case gone:
		w.settling = time.Now().Add(settleDeath)
	case time.Now().After(w.settling):
		return w.node.TryDequeue(ctx, jobType)
	}
	settling, cancel := context.WithDeadlineCause(ctx, w.settling, windlass.ErrEmpty)
	defer cancel()
	return w.node.Dequeue(settling, jobType)
}

// noted returns events that w learns of as well.
func (w *jobWorker) noted(e events.Node) events.Node {
	joined, waiting := e.Joined, e.Waiting
	e.Joined = func(incarnation string, timing session.Timing) {
		w.nameless.Store(false)
		joined(incarnation, timing)
	}
	e.Waiting = func(cause error) {
		w.nameless.Store(errors.Is(cause, windlass.ErrNameTaken))
		waiting(cause)
	}
	return e
}

func (w *jobWorker) workOn(ctx context.Context, job *windlass.Dequeued) error {
	running, cancel := context.WithCancelCause(job.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(ctx.Err()) })()
	result, output, err := w.commands.run(running, job.ID(), job.Token(), jobEnviron(job), w.flags.result,
		func(s *streams) error { return s.feed(job.Props()) })
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
			released = nil // the cause says more
		}
		return errors.Join(taken, released)
	case err != nil: // the command was not started, which is not the job's fault
		return errors.Join(err, job.Release(settling))
	case result.Why == exectask.WhyDeadline: // this process has not noticed yet
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

func ending(settling context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case settling.Err() != nil:
		return fmt.Errorf("what became of it could not be stored within %v: %w: %w", settleMax, broker.ErrUnavailable, err)
	}
	return takenError{err}
}

// keepResult keeps the output of the command, if it can be a result.
func (w *jobWorker) keepResult(job *windlass.Dequeued, output *keptOutput) {
	if !w.flags.result {
		return
	}
	content, err := output.json()
	if err == nil {
		err = job.SetResult(content)
	}
	if err != nil {
		fmt.Fprintf(w.app.err, "windlass: job %s: its output is not kept as its result: %v\n", view.Printable(job.ID()), err)
	}
}

func jobEnviron(job *windlass.Dequeued) []string {
	name, path := "", job.ID()
	if p, err := tree.ParsePath(job.ID()); err == nil {
		name, path = p.Name(), string(p)
	}
	return append(os.Environ(),
		"WINDLASS_JOB_ID="+job.ID(), "WINDLASS_JOB_PATH="+path, "WINDLASS_JOB_NAME="+name,
		"WINDLASS_JOB_TYPE="+job.Spec().Type, "WINDLASS_JOB_TOKEN="+strconv.FormatInt(job.Token(), 10))
}
