package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/balancer"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/cmd/windlass/internal/exectask"
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
}

// workerConfig is what the flags of a node say.
type workerConfig struct {
	name       string
	namespace  string
	zone       string
	labels     map[string]string
	weight     int
	capacity   int
	sessionTTL time.Duration
	retention  windlass.Retention
	// returnWithin and failoverRate are as in windlass.Config.
	returnWithin time.Duration
	failoverRate int
	// memoryClaim and memoryRelease are the limits of the balancer by memory;
	// zero for another balancer.
	memoryClaim, memoryRelease int
	concurrency                concurrency
	logDir                     string
	// logAge and logSpace are as in exectask.Config; zero for its defaults.
	logAge   time.Duration
	logSpace int64
	allow    exectask.Allow
	// user is whom commands run as, nil for this process's own.
	user *exectask.User
	log  *slog.Logger
	// metrics and tracer are nil for none.
	metrics *metrics.Metrics
	tracer  windlass.Tracer
	// exitOnFence makes the process exit when a handler outlives its claim.
	exitOnFence bool
}

// exitFenced is the exit code of a process that ended itself because a handler
// did not return in time; supervisors restart on it.
const exitFenced = 70

func newWorker(ctx context.Context, b broker.Broker, c workerConfig) (*worker, error) {
	timing := session.Derive(c.sessionTTL)
	supervisor, err := exectask.Start(ctx, exectask.Config{
		Args: []string{supervisorUse}, Node: c.name, LogDir: c.logDir, LogAge: c.logAge, LogSpace: c.logSpace, User: c.user,
		// Killing must be over before the session's grace is.
		Grace: timing.Grace * 3 / 4,
	})
	if err != nil {
		return nil, err
	}
	w := &worker{timing: timing, supervisor: supervisor, broker: b}
	config := windlass.Config{
		Broker: b, Namespace: c.namespace, Name: c.name, Handlers: exectask.Handlers(supervisor, c.allow),
		NewTask: exectask.Leave(c.allow, func(task string, err error) {
			c.log.Warn("left to other nodes", "task", task, "error", err)
		}),
		SessionTTL: c.sessionTTL, Zone: c.zone, Labels: c.labels, Weight: c.weight, Capacity: c.capacity,
		ReturnWithin: c.returnWithin, FailoverRate: c.failoverRate, Retention: c.retention, Concurrency: c.concurrency, Version: view.BuildVersion().Version,
		LogDir: c.logDir, Events: windlass.LogEvents(c.log), Renewed: supervisor.SetDeadline,
		Tracer: c.tracer,
	}
	if c.memoryClaim != 0 || c.memoryRelease != 0 {
		if config.Balancer, err = memoryBalancer(c); err != nil {
			return nil, errors.Join(err, supervisor.Close())
		}
	}
	if c.exitOnFence {
		config.Fence = func(overdue func() []string) { exitIfOverdue(c.log, overdue, timing.Slack) }
	}
	if c.metrics != nil {
		config = c.metrics.Instrument(config)
	}
	if w.node, err = windlass.NewNode(config); err != nil {
		return nil, errors.Join(err, supervisor.Close())
	}
	if c.metrics != nil {
		c.metrics.Watch(w.node)
	}
	return w, nil
}

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

// exitIfOverdue ends the process if handlers do not return within the slack that
// is kept for this. A process that was frozen for long gets here before its
// handlers have had a moment to find out, although their commands were killed
// in time by the supervisor.
func exitIfOverdue(log *slog.Logger, overdue func() []string, slack time.Duration) {
	time.Sleep(slack)
	if left := overdue(); len(left) > 0 {
		log.Error("handlers did not return before their claims could end; exiting", "abandoned", left)
		os.Exit(exitFenced)
	}
}

// run works until ctx is done. The connection is closed afterwards.
func (w *worker) run(ctx context.Context) error {
	return errors.Join(w.node.Run(ctx), w.supervisor.Close(), w.broker.Close())
}

// defaultLogDir is where a node keeps the output of its tasks.
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

// outliveReaders keeps a process that is to end in order from ending at once
// because nobody reads what it logs any more.
func outliveReaders() { signal.Ignore(syscall.SIGPIPE) }

// logger writes for people, to standard error.
func (a *app) logger(verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
}
