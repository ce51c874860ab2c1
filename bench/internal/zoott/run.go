package zoott

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/windlass-go/windlass/bench/internal/report"
	"github.com/windlass-go/windlass/bench/internal/servers"
	"github.com/windlass-go/windlass/bench/internal/stats"
)

// Config says how much to measure. All fields but Ours must be set.
type Config struct {
	// Dir is an empty folder for the stores.
	Dir string
	// Pending are the numbers of jobs that are pending at any time.
	Pending []int
	// Takes is how many jobs each side takes in a repetition, after a tenth of
	// that which does not count.
	Takes       int
	Repetitions int
	// Ours leaves the original out.
	Ours bool
	// Timeout bounds a repetition of a side.
	Timeout time.Duration
	// Progress is told what is being done.
	Progress func(format string, args ...any)
}

// Workload is the name in the report.
const Workload = "zoott"

// The names of the sides.
const (
	SideWindlass = "Windlass on ZooKeeper"
	SideOriginal = "as the original zoott"
)

// Row names the row of a number of pending jobs.
func Row(pending int) string {
	return fmt.Sprintf("a job taken and completed, %s pending: median", report.Number(float64(pending)))
}

// taker is one of the sides, on a store of its own.
type taker struct {
	queue func(ctx context.Context, n int) error
	take  func(ctx context.Context) error
	close func() error
}

// sides are those that are compared.
var sides = []struct {
	name string
	open func(ctx context.Context, address string) (taker, error)
}{
	{SideWindlass, func(ctx context.Context, address string) (taker, error) {
		o, err := openOurs(ctx, address)
		if err != nil {
			return taker{}, err
		}
		return taker{o.queue, o.take, o.close}, nil
	}},
	{SideOriginal, func(_ context.Context, address string) (taker, error) {
		o, err := openOriginal(address)
		if err != nil {
			return taker{}, err
		}
		return taker{
			func(_ context.Context, n int) error { return o.queue(n) },
			func(context.Context) error { return o.take() },
			o.close,
		}, nil
	}},
}

// Run measures, if there is a ZooKeeper.
func Run(ctx context.Context, c Config, r *report.Report) error {
	if missing := servers.MissingZooKeeper(); missing != "" {
		r.LeaveOut("jobs one by one on ZooKeeper: %s", missing)
		return nil
	}
	w := r.Begin(report.Workload{
		Name: Workload, Title: "Jobs one by one, on ZooKeeper",
		About: "One worker takes jobs and completes them, one after the other; what is taken is replaced, so that there are always as many. " +
			"The original zoott is a program in Python; what is measured are its requests, made by a Go client without any of the work between " +
			"them, which favours it.",
		Sides: []report.Side{
			{Name: SideWindlass, Settings: "one ZooKeeper server with its defaults, every write on disk; `Node.Dequeue` and `Complete`"},
			{Name: SideOriginal, Settings: "the same server; list what is pending, get each, create an ephemeral znode, get the target, create the completed one, delete two"},
		},
	})
	for _, pending := range c.Pending {
		for round := range c.Repetitions {
			for _, i := range stats.Turns(len(sides), round) {
				if c.Ours && sides[i].name != SideWindlass {
					continue
				}
				took, err := c.trial(ctx, i, pending, fmt.Sprintf("zoott-%d-%d-%d", pending, round, i))
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err != nil {
					r.LeaveOut("jobs one by one, %s, %d pending, round %d: %v", sides[i].name, pending, round+1, err)
					continue
				}
				w.Add(Row(pending), sides[i].name, report.Milliseconds, stats.Median(took))
				c.Progress("zoott: %s, %d pending, round %d: %.2f ms", sides[i].name, pending, round+1, stats.Median(took))
			}
		}
	}
	return nil
}

// trial measures one side once, in milliseconds.
func (c Config) trial(ctx context.Context, which, pending int, name string) (took []float64, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("it took longer than %v", c.Timeout))
	defer cancel()
	server, err := servers.StartZooKeeper(filepath.Join(c.Dir, name))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	t, err := sides[which].open(ctx, server.Address())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.queue(ctx, pending); err != nil {
		return nil, fmt.Errorf("queue: %w", err)
	}
	warmUp := max(1, c.Takes/10)
	for i := range warmUp + c.Takes {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		began := time.Now()
		if err := t.take(ctx); err != nil {
			return nil, fmt.Errorf("take: %w", err)
		}
		if i >= warmUp {
			took = append(took, float64(time.Since(began))/float64(time.Millisecond))
		}
		if err := t.queue(ctx, 1); err != nil {
			return nil, fmt.Errorf("queue: %w", err)
		}
	}
	return took, nil
}
