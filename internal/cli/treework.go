package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-go/windlass"
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
	w := &jobWorker{app: a, flags: f, path: path, timing: session.Derive(f.sessionTTL)}
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

// work takes one job after the other. Of those that fail, the first one is
// returned in the end; anything else that goes wrong ends it.
func (w *jobWorker) work(ctx context.Context) error {
	take := w.node.TryDequeue
	if w.flags.wait {
		take = w.node.Dequeue
	}
	var failed error
	for taken := 0; w.flags.all || taken < w.flags.count; taken++ {
		job, err := take(ctx, w.flags.jobType)
		if errors.Is(err, windlass.ErrEmpty) && taken > 0 {
			break
		}
		if err == nil {
			err = w.workOn(ctx, job)
		}
		var one *commandError
		switch {
		case errors.As(err, &one):
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
		if released := job.Release(settling); released != nil {
			return released
		}
		return fmt.Errorf("task %q: %w", job.ID(), cause)
	case err != nil: // it was not started, which is not the job's fault
		return errors.Join(err, job.Release(settling))
	case result.Why != exectask.WhyExited: // its right to run had ended before the news of that got here
		return errors.Join(fmt.Errorf("task %q: %w", job.ID(), windlass.ErrLost), job.Release(settling))
	case !result.OK():
		failed := &commandError{job: job.ID(), text: result.String(), code: codeOf(result)}
		return errors.Join(failed, job.Fail(settling, errors.New(result.String())))
	}
	w.keepResult(job, output)
	return job.Complete(settling)
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
func (w *jobWorker) keepResult(job *windlass.Dequeued, output []byte) {
	if !w.flags.result {
		return
	}
	output = bytes.TrimSpace(output)
	problem := "it is not JSON"
	if json.Valid(output) {
		err := job.SetResult(json.RawMessage(output))
		if err == nil {
			return
		}
		problem = err.Error()
	}
	fmt.Fprintf(w.app.err, "windlass: job %s: its output is not kept as its result: %s\n", printable(job.ID()), problem)
}

// run runs the command under a supervisor of its own, which ends it with all that
// it has started when this process is killed or frozen, as it does for exec tasks.
// It returns the output if that is to be kept.
func (w *jobWorker) run(ctx context.Context, job *windlass.Dequeued) (result exectask.Result, output []byte, err error) {
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
	return result, s.output.kept, err
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

// streams are the standard input, output and error of a command. What is no file
// of ours, or has to be kept, goes through a pipe.
type streams struct {
	files [3]*os.File
	// pipes are those among the files that are pipes' ends, to be closed here.
	pipes   []*os.File
	copying sync.WaitGroup
	output  keptOutput
}

func (w *jobWorker) openStreams(data []byte) (*streams, error) {
	s := &streams{output: keptOutput{max: windlass.ResultBytesMax + 1}}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	s.files[0], s.pipes = read, append(s.pipes, read)
	s.copying.Go(func() {
		defer write.Close()
		_, _ = write.Write(data) // a command need not read it
	})
	out := w.app.out
	if w.flags.result {
		out = io.MultiWriter(out, &s.output)
	}
	for i, to := range []io.Writer{out, w.app.err} {
		if f, ok := to.(*os.File); ok {
			s.files[1+i] = f
			continue
		}
		read, write, err := os.Pipe()
		if err != nil {
			s.close()
			return nil, err
		}
		s.files[1+i], s.pipes = write, append(s.pipes, write)
		s.copying.Go(func() {
			defer read.Close()
			_, _ = io.Copy(to, read) // nobody reads it any more
			_, _ = io.Copy(io.Discard, read)
		})
	}
	return s, nil
}

// close ends the pipes, once nobody else has them open, and returns when all that
// was in them has been copied.
func (s *streams) close() {
	for _, f := range s.pipes {
		_ = f.Close() // of a pipe, which has nothing left to say
	}
	s.copying.Wait()
}

// keptOutput keeps the beginning of what is written.
type keptOutput struct {
	max  int
	kept []byte
}

// Write implements io.Writer.
func (k *keptOutput) Write(p []byte) (int, error) {
	k.kept = append(k.kept, p[:min(len(p), k.max-len(k.kept))]...)
	return len(p), nil
}
