package loadgen

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/session"
)

// Limits of Config.
const (
	TasksMax   = 1_000_000
	NodesMax   = 64
	TimeoutMax = time.Hour
)

// Config says what to measure. All fields but Progress and Done must be set.
type Config struct {
	// Tasks is the number of tasks, and of jobs; 1 to TasksMax.
	Tasks int
	// Nodes is the number of nodes; 1 to NodesMax. A single one is not lost.
	Nodes int
	// SessionTTL is that of the nodes.
	SessionTTL time.Duration
	// Timeout bounds each wait; up to TimeoutMax.
	Timeout time.Duration
	// Namespace is for this run alone, and is deleted in the end.
	Namespace string
	// Connect opens another connection to the broker.
	Connect func(ctx context.Context) (broker.Broker, error)
	// Progress, if set, is called at the beginning of each step, with the number of
	// things to do, zero if that is not counted. Done, if set, is called with the number
	// of those that are done.
	Progress func(text string, total int)
	Done     func(n int)
	// clock is nil, except in tests in virtual time.
	clock func() (boot, day time.Duration)
}

// Check returns a *windlass.BadInputError for a bad number or time.
func (c Config) Check() error {
	refuse := func(field string, value any, format string, args ...any) error {
		return &windlass.BadInputError{Field: field, Value: fmt.Sprint(value), Limit: fmt.Sprintf(format, args...)}
	}
	switch {
	case c.Tasks < 1 || c.Tasks > TasksMax:
		return refuse("tasks", c.Tasks, "must be from 1 to %d", TasksMax)
	case c.Nodes < 1 || c.Nodes > NodesMax:
		return refuse("nodes", c.Nodes, "must be from 1 to %d", NodesMax)
	case c.SessionTTL == 0 || session.CheckTTL(c.SessionTTL) != nil:
		return refuse("session-ttl", c.SessionTTL, "must be from %v to %v", session.TTLMin, session.TTLMax)
	case c.Timeout <= 0 || c.Timeout > TimeoutMax:
		return refuse("timeout", c.Timeout, "must be more than 0 and at most %v", TimeoutMax)
	}
	return nil
}

type bench struct {
	Config
	store  broker.Broker
	report *Report
}

// Run measures, and returns what it has measured even with an error. When it returns, the
// nodes have ended and the namespace is gone.
func Run(ctx context.Context, c Config) (_ *Report, err error) {
	b := &bench{Config: c, report: &Report{Tasks: c.Tasks, Nodes: c.Nodes}}
	if err := c.Check(); err != nil {
		return b.report, err
	}
	space, err := keys.New(c.Namespace)
	if err != nil {
		return b.report, err
	}
	b.Namespace = space.Root()
	if b.store, err = c.Connect(ctx); err != nil {
		return b.report, err
	}
	defer func() { err = errors.Join(err, b.store.Close()) }()
	err = b.run(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx) // other errors follow from it
	}
	b.progress("deleting what was written", 0)
	return b.report, errors.Join(err, remove(ctx, b.store, b.Namespace))
}

func (b *bench) run(ctx context.Context) error {
	b.progress("measuring the broker alone", 0)
	err := b.within(ctx, "the broker to take raw transactions", func(ctx context.Context) (err error) {
		b.report.Raw, err = measureRaw(ctx, b.store, b.Namespace+"/raw/", b.Tasks)
		return err
	})
	if err != nil {
		return err
	}
	// Each part has its own nodes and namespace: audit records of the jobs, written seconds
	// later, would slow the tasks down.
	if err := b.onFleet(ctx, b.Namespace+"/jobs", b.completeJobs); err != nil {
		return fmt.Errorf("jobs: %w", err)
	}
	if err := b.onFleet(ctx, b.Namespace+"/tasks", b.runTasks); err != nil {
		return fmt.Errorf("tasks: %w", err)
	}
	return nil
}

func (b *bench) progress(text string, total int) {
	if b.Progress != nil {
		b.Progress(text, total)
	}
}

// within bounds f by Timeout; its error then names what f waited for.
func (b *bench) within(ctx context.Context, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.Timeout, fmt.Errorf("not within %v: %s", b.Timeout, what))
	defer cancel()
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
