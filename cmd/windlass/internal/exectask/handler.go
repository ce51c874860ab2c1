package exectask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/clock"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/session"
	"github.com/windlass-go/windlass/statemachine"
)

// Type is the type of the tasks that run OS commands.
const Type = "exec"

// Outcome is the result that is stored with a task after each run of its command. Its
// JSON is stable.
type Outcome struct {
	// ExitCode is -1 when a signal ended the command.
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal"`
	// Duration is a duration such as "1.5s".
	Duration string `json:"duration"`
	// Output is the end of standard output and error together, in UTF-8; a byte that is not
	// is a question mark.
	Output string `json:"output"`
	// Truncated reports whether there was more output.
	Truncated  bool      `json:"truncated"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	// Host and LogDir say where the whole output is.
	Host   string `json:"host"`
	LogDir string `json:"log_dir"`
	// LogEnd is where in the log it ends, zero if that is not known, and LogBytes is how much
	// of the log this run wrote, its first line included.
	LogEnd   LogEnd `json:"log_end"`
	LogBytes int64  `json:"log_bytes"`
	// LogError is why the log is incomplete, empty if it is not, and LogMissing is how many
	// bytes of output it lacks, as far as that is known.
	LogError   string `json:"log_error,omitempty"`
	LogMissing int64  `json:"log_missing,omitempty"`
	// Why is why the run ended.
	Why Why `json:"why"`
	// Outlived is how many processes were found alive when the program had ended by itself,
	// and were ended then, as the daemon of a program that puts itself into the background.
	Outlived int `json:"outlived,omitempty"`
	// OutputBytes is how much the command wrote in all.
	OutputBytes int64 `json:"output_bytes"`
	// Run names the run in its log, and in the variable WINDLASS_RUN. Pid was the command's
	// process, as the logs of the system name it.
	Run string `json:"run"`
	Pid int    `json:"pid"`
	// Restarts is how often the command had been started again since the start of the
	// handler, before the run or for it.
	Restarts int `json:"restarts,omitempty"`
}

// Report is the progress that is stored when a task whose command runs gets the command
// checkpoint. Its JSON is stable.
type Report struct {
	// At is when it was made, by the clock of the node.
	At time.Time `json:"at"`
	// Output is the end of the task's log, in UTF-8; a byte that is not is a question mark.
	Output string `json:"output"`
	// Truncated reports whether there was more output.
	Truncated bool `json:"truncated"`
	// LogEnd is where in the log Output ends.
	LogEnd LogEnd `json:"log_end"`
	// Last is true if the node made it as it gave the task up: it adds nothing to this log.
	Last bool `json:"last,omitempty"`
	// LogError is why the log lacks output of the command that runs, empty if it does not.
	LogError string `json:"log_error,omitempty"`
	// Usage is nil if no command ran just then, as between two runs, and on other systems
	// than Linux.
	Usage *Usage `json:"usage,omitempty"`
}

// A node that gives a task up makes a report once more, within lastReportMax, if one was
// asked for no longer than followedFor before: whoever follows the output asks more often.
const (
	followedFor   = 20 * time.Second
	lastReportMax = 2 * time.Second
)

// reportBytes limits the output in a Report. As JSON it takes six times as much at most.
const reportBytes = 32 << 10

// Events are callbacks for an operator's log and metrics. They are called from several
// goroutines, none of which reads from the supervisor; any may be nil.
type Events struct {
	// LogFailed: output of a task's command could not be written to its log. It is called at
	// most once for each run.
	LogFailed func(task string, err error)
}

// Handlers returns the handler for tasks that run OS commands, by Type.
func Handlers(s *Supervisor, allow Allow, events Events) map[string]windlass.NewHandler {
	return map[string]windlass.NewHandler{Type: func(windlass.Task) windlass.Handler {
		return &handler{supervisor: s, allow: allow, events: events, asks: make(chan struct{}, 1), failed: make(chan error, 1)}
	}}
}

// Leave returns a windlass.NewTask that leaves tasks whose command is not allowed to other
// nodes, and calls refused for each. It accepts tasks whose props are invalid, so that they
// fail visibly.
func Leave(allow Allow, refused func(task string, err error)) windlass.NewTask {
	return func(id string, props json.RawMessage) windlass.Task {
		if p, err := ParseProps(props); err == nil {
			if _, err := allow.Check(p); errors.Is(err, ErrNotAllowed) {
				refused(id, err)
				return nil
			}
		}
		return taskID(id)
	}
}

// taskID is a windlass.Task that is no more than its ID.
type taskID string

func (id taskID) ID() string { return string(id) }

type handler struct {
	supervisor *Supervisor
	allow      Allow
	events     Events
	// asks holds one while a report is to be made that is later than the last.
	asks chan struct{}
	// failed holds why the log of a run is incomplete while LogFailed is to be called.
	failed chan error
}

var _ windlass.Handler = (*handler)(nil)

// Run runs the task's command, and runs it again after each end if its props say so, as
// long as the claim is held. The command checkpoint saves a Report and disturbs nothing;
// any other command but run ends it.
func (h *handler) Run(ctx context.Context, c *windlass.Claim) error {
	messages := c.Messages()
	running, stop := context.WithCancel(ctx)
	var told statemachine.Command
	var asked time.Time
	var lacks bool
	var listener sync.WaitGroup
	listener.Go(func() { asked, lacks = h.reports(running, c) })
	listener.Go(func() { told = h.listen(running, messages, stop) })
	err := h.run(running, c)
	stop()
	listener.Wait()
	h.tellFailed(c.ID())
	if (lacks || time.Since(asked) < followedFor) && !errors.Is(err, windlass.ErrDone) && !errors.Is(context.Cause(ctx), session.ErrExpired) {
		h.lastReport(ctx, c)
	}
	if told.Message != "" && !errors.Is(err, windlass.ErrDone) {
		return windlass.Message(told)
	}
	return err
}

// listen asks for a report for each checkpoint, until ctx ends. It returns the command for
// which it called stop.
func (h *handler) listen(ctx context.Context, messages <-chan statemachine.Command, stop func()) statemachine.Command {
	for {
		select {
		case <-ctx.Done():
			return statemachine.Command{}
		case m := <-messages:
			switch m.Message {
			case statemachine.Run:
			case statemachine.Checkpoint:
				h.ask()
			default:
				stop()
				return m
			}
		}
	}
}

// ask has a report made.
func (h *handler) ask() {
	select {
	case h.asks <- struct{}{}:
	default: // one is to be made that is later than this
	}
}

// logFailed has it told that the log of a task's command is incomplete, and reported. It
// does not block, as an event may that writes to a full disk: the link to the supervisor
// would read no more, and all commands would be ended.
func (h *handler) logFailed(err error) {
	select {
	case h.failed <- err:
	default: // that of the run before is not told yet
	}
	h.ask()
}

// tellFailed tells that the log of a task's command is incomplete if logFailed has that to
// be told.
func (h *handler) tellFailed(task string) {
	select {
	case err := <-h.failed:
		if h.events.LogFailed != nil {
			h.events.LogFailed(task, err)
		}
	default:
	}
}

// lastReport saves what the command has written since the report before.
func (h *handler) lastReport(ctx context.Context, c *windlass.Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastReportMax)
	defer cancel()
	if report, err := h.output(c.ID()); err == nil {
		report.Last = true
		_ = c.Checkpoint(ctx, report) // without it the end is missing, of which who follows is told
	}
}

// reports saves reports as they are asked for, until ctx ends, and returns when the latest
// was, and whether it may say that the log lacks output. It is not done by listen, since a
// report takes a moment, and a command to stop must not wait for it.
func (h *handler) reports(ctx context.Context, c *windlass.Claim) (asked time.Time, lacks bool) {
	for {
		select {
		case <-ctx.Done():
			return asked, lacks
		case <-h.asks:
			asked = time.Now()
			h.tellFailed(c.ID())
			// Who asked finds out that nothing comes; the command goes on.
			if report, err := h.report(ctx, c.ID()); err == nil {
				saved := c.Checkpoint(ctx, report) == nil
				lacks = report.LogError != "" || lacks && !saved
			}
		}
	}
}

// report returns the end of what the task's command has written, and what it uses.
func (h *handler) report(ctx context.Context, id string) (Report, error) {
	usage := h.supervisor.Usage(ctx, id) // which takes half a second
	report, err := h.output(id)
	report.Usage = usage
	return report, err
}

// output returns a report without the usage.
func (h *handler) output(id string) (Report, error) {
	log, err := logEnd(h.supervisor.cfg.LogDir, id, reportBytes)
	log = log.whole()
	report := Report{At: time.Now().UTC(), Output: readable(log.text), Truncated: log.cut, LogEnd: log.end, LogError: h.supervisor.logError(id)}
	if report.LogError != "" {
		err = nil // it may not be readable either, and the error is worth a report
	}
	return report, err
}

// run runs the command until it has done so for good, or ctx ends.
func (h *handler) run(ctx context.Context, c *windlass.Claim) error {
	props, err := ParseProps(c.Props())
	if err != nil {
		return windlass.Permanent(err)
	}
	var again restarts
	for first := true; ; first = false {
		var result Result
		path, err := h.allow.Check(props) // each time, as the file behind a path may have changed
		switch {
		case err == nil:
			stop := again.whenLasting(c.Restarted)
			result, err = h.runOnce(ctx, c, again.Count, Command{
				Task: c.ID(), Token: strconv.FormatInt(c.Token(), 10), Path: path, Argv: props.Command, Env: props.Env, Dir: props.Dir,
				LogFailed: h.logFailed,
			})
			stop()
			if result.LogError != "" {
				h.ask() // or the progress would say so of the runs to come
			}
		case first, errors.Is(err, ErrNotAllowed):
			return windlass.Permanent(err)
		}
		switch {
		case err == nil && result.OK() && props.Restart != RestartAlways:
			return windlass.ErrDone // even if it was told to stop just before
		case err == nil && errors.Is(context.Cause(ctx), windlass.ErrTimeout):
			return result.Err() // a timeout is an error, and this is its detail
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrSupervisorLost), errors.Is(err, ErrPastDeadline), errors.Is(err, ErrClosed),
			errors.Is(err, ErrTooMany):
			// The node failed, or is full, and the task has not. If it killed its supervisor,
			// that death is recorded (Config.Lost), and tells in time.
			return windlass.ErrRelease
		case err == nil && result.Why != WhyExited:
			// The deadline passed before ctx ended, as after a freeze: an interruption.
			return windlass.ErrRelease
		case err == nil:
			err = result.Err()
		}
		switch props.Restart {
		case RestartNever:
			return windlass.Permanent(err)
		case RestartOnFailure:
			return err
		}
		wait := again.ended(time.Now().UTC(), result.Duration, err.Error())
		c.Restarted(again.Restarts)
		if !pause.For(ctx, wait) {
			return ctx.Err()
		}
	}
}

// runOnce runs the command once and stores its outcome as the task's result. restarts is how
// often it was started again before.
func (h *handler) runOnce(ctx context.Context, c *windlass.Claim, restarts int, command Command) (Result, error) {
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		if errors.Is(context.Cause(ctx), session.ErrExpired) {
			// The broker has ended the session: others may start its tasks, so all
			// commands must end without grace.
			now := clock.Boot()
			h.supervisor.SetDeadline(now, now)
		}
	})
	defer func() {
		if !stop() {
			<-killed // or it could kill commands of the next session
		}
	}()
	start, _ := LogEndOf(h.supervisor.cfg.LogDir, c.ID()) // as the end, for who follows the output
	result, err := h.supervisor.Run(ctx, command)
	if err != nil {
		return result, err
	}
	outcome := outcomeOf(result)
	outcome.Restarts = restarts
	outcome.Host, _ = os.Hostname() // without it, only the log is harder to find
	outcome.LogDir = h.supervisor.cfg.LogDir
	outcome.LogEnd, _ = LogEndOf(outcome.LogDir, c.ID())
	outcome.LogBytes, _ = outcome.LogEnd.Since(start)
	if err := c.SetResult(outcome); err != nil {
		return result, fmt.Errorf("record the result: %w", err)
	}
	return result, nil
}

// outcomeOf returns what is stored of a result, without the place of the log.
func outcomeOf(r Result) Outcome {
	return Outcome{
		ExitCode: r.Code, Signal: r.Signal, Why: r.Why, Outlived: r.Outlived, Duration: r.Duration.String(),
		Output: readable(r.Output), Truncated: r.Truncated, OutputBytes: r.OutputBytes,
		StartedAt: r.Started.UTC(), FinishedAt: r.Finished.UTC(), Run: r.Run, Pid: r.Pid,
		LogError: r.LogError, LogMissing: r.LogMissing,
	}
}
