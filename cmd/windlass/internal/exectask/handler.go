package exectask

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/clock"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/session"
)

// Type is the type of the tasks that run OS commands.
const Type = "exec"

// Outcome is what is recorded with a task about the latest run of its command.
// Its JSON is stable.
type Outcome struct {
	// ExitCode is -1 when a signal ended the command.
	ExitCode int    `json:"exit_code"`
	Signal   string `json:"signal"`
	// Duration is a duration such as "1.5s".
	Duration string `json:"duration"`
	// Output is the end of standard output and error together.
	Output string `json:"output"`
	// Truncated tells that there was more.
	Truncated  bool      `json:"truncated"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`
	// Host and LogDir say where the whole output is.
	Host   string `json:"host"`
	LogDir string `json:"log_dir"`
}

// Bounds of the pause before a command with "restart":"always" is started
// again. A command that ran for longer than restartReset starts over with the
// shorter one.
const (
	restartMin   = time.Second
	restartMax   = time.Minute
	restartReset = time.Minute
)

// Handlers makes the handlers for tasks that run OS commands: the key is Type.
func Handlers(s *Supervisor, allow Allow) map[string]windlass.NewHandler {
	return map[string]windlass.NewHandler{Type: func(windlass.Task) windlass.Handler {
		return &handler{supervisor: s, allow: allow}
	}}
}

// Leave makes a windlass.NewTask that leaves to other nodes the tasks whose
// command the allow-list does not hold, and tells refused about each. Tasks
// whose props cannot be read are taken, so that they fail where it shows.
func Leave(allow Allow, refused func(task string, err error)) windlass.NewTask {
	return func(id string, props json.RawMessage) windlass.Task {
		if p, err := ParseProps(props); err == nil {
			if _, err := allow.Check(p); errors.Is(err, ErrNotAllowed) {
				refused(id, err)
				return nil
			}
		}
		return named(id)
	}
}

// named is the Task of a command.
type named string

// ID implements windlass.Task.
func (n named) ID() string { return string(n) }

type handler struct {
	supervisor *Supervisor
	allow      Allow
}

var _ windlass.Handler = (*handler)(nil)

// Run implements windlass.Handler: it runs the task's command, again and again
// if it is to be restarted, for as long as the claim is held.
func (h *handler) Run(ctx context.Context, c *windlass.Claim) error {
	props, err := ParseProps(c.Props())
	if err != nil {
		return windlass.Permanent(err)
	}
	wait := restartMin
	for first := true; ; first = false {
		var result Result
		path, err := h.allow.Check(props) // each time: what a path names may have changed
		switch {
		case err == nil:
			result, err = h.runOnce(ctx, c, NewCommand(props, path, c.ID(), strconv.FormatInt(c.Token(), 10)))
		case first, errors.Is(err, ErrNotAllowed):
			return windlass.Permanent(err)
		}
		switch {
		case err == nil && result.OK() && props.Restart != RestartAlways:
			return windlass.ErrDone // by itself, though it may have been told to end meanwhile
		case err == nil && errors.Is(context.Cause(ctx), windlass.ErrTimeout):
			return errors.New(result.String()) // it counts as an error, and how it ended says more
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, ErrSupervisorLost), errors.Is(err, ErrPastDeadline), errors.Is(err, ErrClosed),
			errors.Is(err, ErrTooMany):
			// An interruption, or a full node, which the task is not to blame for.
			return windlass.ErrRelease
		case err == nil && result.Why != WhyExited:
			// Its right to run ended before the news of that got here, as it
			// does after a freeze: an interruption too.
			return windlass.ErrRelease
		case props.Restart == RestartAlways:
		case err != nil && props.Restart == RestartNever:
			return windlass.Permanent(err)
		case err != nil:
			return err
		case props.Restart == RestartNever:
			return windlass.Permanent(errors.New(result.String()))
		default:
			return errors.New(result.String())
		}
		if result.Duration > restartReset {
			wait = restartMin
		}
		if !pause.For(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, restartMax)
	}
}

// runOnce runs the command once and leaves what came of it as the task's result.
func (h *handler) runOnce(ctx context.Context, c *windlass.Claim, command Command) (Result, error) {
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		if errors.Is(context.Cause(ctx), session.ErrExpired) {
			// The broker has ended the session already, so others may start
			// what runs here: there is no grace left, for any of it.
			now := clock.Boot()
			h.supervisor.SetDeadline(now, now)
		}
	})
	defer func() {
		if !stop() {
			<-killed // or it could hit what runs under the next session
		}
	}()
	result, err := h.supervisor.Run(ctx, command)
	if err != nil {
		return result, err
	}
	host, _ := os.Hostname() // it only helps people find the log
	outcome := Outcome{
		ExitCode: result.Code, Signal: result.Signal, Duration: result.Duration.String(),
		Output: strings.ToValidUTF8(string(result.Output), "�"), Truncated: result.Truncated,
		StartedAt: result.Started.UTC(), FinishedAt: result.Finished.UTC(), Host: host, LogDir: h.supervisor.cfg.LogDir,
	}
	if err := c.SetResult(outcome); err != nil {
		return result, fmt.Errorf("record the result: %w", err)
	}
	return result, nil
}
