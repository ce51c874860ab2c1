package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/balancer"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
	"github.com/windlass-go/windlass/cmd/windlass/internal/repeats"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/observe/metrics"
	"github.com/windlass-go/windlass/session"
)

// supervisorUse is the hidden subcommand that a node starts this program with.
const supervisorUse = "exec-supervisor"

func (a *app) supervisorCommand() *cobra.Command {
	return &cobra.Command{
		Use:    supervisorUse,
		Hidden: true,
		Args:   noArgs,
		RunE: func(*cobra.Command, []string) error {
			if code := exectask.SuperviseMain(exectask.SocketFD); code != 0 {
				return fmt.Errorf("the supervisor of commands ended with code %d", code)
			}
			return nil
		},
	}
}

// worker is a node that runs OS commands, with its supervisor.
type worker struct {
	node       *windlass.Node
	timing     session.Timing
	supervisor *exectask.Supervisor
	broker     broker.Broker
	survived   *survived
	log        *slog.Logger
}

type workerConfig struct {
	windlass.Config
	// memoryClaim and memoryRelease are the limits of the balancer by memory;
	// zero for another balancer.
	memoryClaim, memoryRelease int
	// logAge and logSpace are as in exectask.Config; zero for its defaults.
	// trustAbove takes folders for the output below those of others.
	trustAbove bool
	logAge     time.Duration
	logSpace   int64
	allow      exectask.Allow
	// user runs the commands, nil for this process's own user.
	user *exectask.User
	log  *slog.Logger
	// metrics is nil for none.
	metrics *metrics.Metrics
	// exitOnFence makes the process exit when a handler outlives its claim.
	exitOnFence bool
}

// exitFenced is the exit code of a process that ended itself because a handler
// did not return in time; supervisors restart on it.
const exitFenced = 70

func newWorker(ctx context.Context, b broker.Broker, c workerConfig) (*worker, error) {
	timing := session.Derive(c.SessionTTL)
	var node *windlass.Node // set before anything runs
	supervisor, err := exectask.Start(ctx, exectask.Config{
		Args: []string{supervisorUse}, Node: c.Name, LogDir: c.LogDir, TrustAbove: c.trustAbove, LogAge: c.logAge, LogSpace: c.logSpace, User: c.user,
		Grace: commandGrace(timing),
		Lost: func(tasks []string) {
			if err := node.RecordDeath(context.Background(), "supervisor", tasks); err != nil {
				c.log.Warn("broker trouble", "error", err)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	c.LogDir = supervisor.LogDir()
	config := c.Config
	survived := readSurvived(c.LogDir, c.log)
	config.Broker, config.Version, config.Renewed = b, view.BuildVersion().Version, supervisor.SetDeadline
	config.Events, config.Survived = survived.events(events.Log(c.log)), survived.names
	config.ShutdownGrace = shutdownGrace(timing)
	config.Handlers = exectask.Handlers(supervisor, c.allow, commandEvents(c.log, c.metrics))
	config.NewTask = exectask.Leave(c.allow, func(task string, err error) { c.log.Warn("left to other nodes", "task", task, "error", err) })
	if c.memoryClaim != 0 || c.memoryRelease != 0 {
		if config.Balancer, err = memoryBalancer(c); err != nil {
			return nil, errors.Join(err, supervisor.Close())
		}
	}
	if c.exitOnFence {
		config.Fence = func(overdue func() []string) {
			survived.noteSoon()
			exitIfOverdue(c.log, overdue, timing.Slack)
		}
	}
	if c.metrics != nil {
		config = c.metrics.Instrument(config)
	}
	if node, err = windlass.NewNode(config); err != nil {
		return nil, errors.Join(err, supervisor.Close())
	}
	if c.metrics != nil {
		c.metrics.Watch(node)
	}
	return &worker{node: node, timing: timing, supervisor: supervisor, broker: b, survived: survived, log: c.log}, nil
}

// commandEvents tells of commands in the node's log and counts; metrics may be nil.
func commandEvents(log *slog.Logger, m *metrics.Metrics) exectask.Events {
	return exectask.Events{
		LogFailed: func(task string, err error) {
			log.Warn("output of a command is missing in its log", "task", task, "error", err)
			if m != nil {
				m.LogFailed()
			}
		},
	}
}

// commandGrace is the time that a command has to end itself: it must be killed before the
// session's grace is over.
func commandGrace(t session.Timing) time.Duration { return t.Grace * 3 / 4 }

// shutdownGrace is how long a node that is stopped waits for its commands. They are killed
// after commandGrace, but a slow machine takes its time to kill many and to report their
// ends, and a claim that is left behind keeps its task from running until it expires. While
// the session lasts there is no need to hurry.
func shutdownGrace(t session.Timing) time.Duration { return t.Grace + 5*time.Second }

// memoryBalancer is the default balancer as long as there is memory.
func memoryBalancer(c workerConfig) (windlass.Balancer, error) {
	memory, err := balancer.NewMemory()
	if err != nil {
		return nil, err
	}
	b, err := balancer.NewResource(memory, c.memoryClaim, c.memoryRelease)
	if err != nil {
		return nil, err
	}
	b.Next = windlass.Planner{}
	b.Trouble = func(err error) { c.log.Warn("memory cannot be read", "error", err) }
	return b, nil
}

// exitIfOverdue ends the process if handlers do not return within the slack. A process
// that was frozen for long gets here before its handlers could notice that the supervisor
// has killed their commands in time.
func exitIfOverdue(log *slog.Logger, overdue func() []string, slack time.Duration) {
	time.Sleep(slack)
	if left := overdue(); len(left) > 0 {
		log.Error("handlers did not return before their claims could end; exiting", "abandoned", left)
		os.Exit(exitFenced)
	}
}

// run works until ctx is done. The connection is closed afterwards.
func (w *worker) run(ctx context.Context) error {
	defer context.AfterFunc(ctx, w.tellStopping)()
	defer w.survived.note()
	return errors.Join(w.node.Run(ctx), w.supervisor.Close(), w.broker.Close())
}

// stoppingNamed is how many of the tasks that it waits for a node names.
const stoppingNamed = 5

// tellStopping says what the end of the node waits for.
func (w *worker) tellStopping() {
	var running []string
	for _, t := range w.node.Tasks() {
		if !t.Parked {
			running = append(running, t.ID)
		}
	}
	w.log.Info("stopping; a second signal ends it at once", "tasks", len(running), "first", running[:min(len(running), stoppingNamed)], "within", shutdownGrace(w.timing).Round(time.Millisecond))
}

func defaultLogDir(node string) (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("folder for logs: %w; name one with --log-dir", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "windlass", "logs", node), nil
}

// outliveReaders keeps a process that has to end in order from being ended by SIGPIPE
// when nobody reads its log any more.
func outliveReaders() { signal.Ignore(syscall.SIGPIPE) }

// logger writes for people, to standard error, from a level on, or everything. Warnings that
// are repeated are counted.
func (a *app) logger(level slog.Level, verbose bool) *slog.Logger {
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(repeats.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level})))
}

// processName is a name for this process, for a flag that was not given.
func processName(flag, prefix string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", usagef("%s is not set, and the host has no name: %w", flag, err)
	}
	return fmt.Sprintf("%s%s-%d", prefix, host, os.Getpid()), nil
}

func checkSessionTTL(ttl time.Duration) error {
	if err := session.CheckTTL(ttl); err != nil {
		return usagef("--session-ttl: %w", err)
	}
	return nil
}

// beside runs a node, or a candidate, while work runs. The node outlives ctx, so that work can
// end its claims first. ended is the error of the node.
func beside(ctx context.Context, run func(context.Context) error, work func(context.Context) error) (err, ended error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var node sync.WaitGroup
	node.Go(func() { ended = run(running) })
	err = work(ctx)
	stop()
	node.Wait()
	return err, ended
}
