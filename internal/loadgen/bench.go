package loadgen

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
)

// bench is one run.
type bench struct {
	Config
	space  keys.Space
	client *windlass.Client
	ledger *ledger
	fleet  *fleet
	limits limits
	report *Report
	// tasks are those that exist.
	tasks set
}

// set is a range of tasks by their numbers, which are never used twice.
type set struct{ first, count int }

// phases are the methods that measure.
var phases = map[string]func(*bench, context.Context) error{
	PhaseSubmit: (*bench).submitPhase, PhasePlace: (*bench).placePhase, PhaseFailover: (*bench).failoverPhase,
	PhaseDrain: (*bench).drainPhase, PhaseJoin: (*bench).joinPhase, PhaseIdle: (*bench).idlePhase,
}

// TimeoutError says that something did not come about in time.
type TimeoutError struct {
	// What was waited for, and for how long.
	What  string
	Bound time.Duration
}

// Error implements error.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("not within %v: %s", e.Bound, e.What)
}

// Run measures, and returns what it measured so far even with an error. When it
// returns, the processes have ended and the namespace is gone.
func Run(ctx context.Context, c Config) (report *Report, err error) {
	report = &Report{Tasks: c.Tasks, Nodes: c.Nodes, Figures: []Figure{}}
	if err := c.Check(); err != nil {
		return report, err
	}
	b := &bench{Config: c, ledger: &ledger{}, report: report}
	if b.space, err = keys.New(c.Namespace); err != nil {
		return report, err
	}
	if b.client, err = windlass.NewClient(c.Broker, c.Namespace); err != nil {
		return report, err
	}
	b.fleet = newFleet(c.Node, b.ledger)
	b.fleet.told = c.Running
	err = b.run(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx) // all else is a consequence of it
	}
	// In this order: a node that lives could write into what was deleted.
	b.fleet.close()
	return report, errors.Join(err, remove(ctx, c.Broker, c.Namespace))
}

func (b *bench) run(ctx context.Context) error {
	b.progress("measuring the broker alone")
	err := b.within(ctx, "the broker to take raw transactions", func(ctx context.Context) (err error) {
		b.limits, err = measureLimits(ctx, b.Broker, b.space.All()+"raw/", b.Config.Tasks)
		return err
	})
	if err != nil {
		return fmt.Errorf("raw: %w", err)
	}
	b.reportLimits()
	for _, phase := range b.Phases {
		if err := phases[phase](b, ctx); err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
	}
	return nil
}

// within bounds what f waits for.
func (b *bench) within(ctx context.Context, what string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.Timeout, &TimeoutError{What: what, Bound: b.Timeout})
	defer cancel()
	err := f(ctx)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// settle waits until the fleet is at rest and its live members' counts are as they
// should be.
func (b *bench) settle(ctx context.Context, what string, as func(counts []int) bool) error {
	return b.within(ctx, what, func(ctx context.Context) error {
		return b.fleet.settle(ctx, func(counts []int) bool { return as(pick(counts, b.fleet.numbers())) })
	})
}

// allRun is how counts are when every task runs.
func (b *bench) allRun(counts []int) bool { return sum(counts) == b.tasks.count }

func (b *bench) allRunEvenly(counts []int) bool { return b.allRun(counts) && unevenness(counts) <= 1 }

// nodes makes the fleet have at least n members.
func (b *bench) nodes(ctx context.Context, n int) error {
	missing := n - len(b.fleet.live())
	if missing <= 0 {
		return nil
	}
	return b.within(ctx, fmt.Sprintf("%d nodes to join", missing), func(ctx context.Context) error {
		_, err := b.fleet.start(ctx, missing)
		return err
	})
}

// calm is how the phases begin that change a running fleet: with all nodes, on
// which all tasks run evenly.
func (b *bench) calm(ctx context.Context) error {
	if err := b.nodes(ctx, b.Config.Nodes); err != nil {
		return err
	}
	if b.tasks.count == 0 {
		if _, err := b.submit(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(b.even(ctx), b.written(ctx)); err != nil {
		return err
	}
	return b.within(ctx, "the nodes to report", b.fleet.mark)
}

// even waits until all tasks run evenly. Nodes that have settled leave a small
// difference as it is unless they are told to balance.
func (b *bench) even(ctx context.Context) error {
	return b.within(ctx, "all tasks to run evenly before the phase", func(ctx context.Context) error {
		for {
			if err := b.settle(ctx, "all tasks to run before the phase", b.allRun); err != nil {
				return err
			}
			if b.allRunEvenly(pick(b.ledger.running, b.fleet.numbers())) {
				return nil
			}
			b.progress("the nodes differ by %d tasks; telling them to balance", unevenness(pick(b.ledger.running, b.fleet.numbers())))
			if err := b.sendAll(ctx, windlass.CommandBalance); err != nil {
				return err
			}
		}
	})
}

// empty is how the phases begin that submit: with all nodes and no task.
func (b *bench) empty(ctx context.Context) error {
	if err := b.nodes(ctx, b.Config.Nodes); err != nil {
		return err
	}
	if err := b.deleteTasks(ctx); err != nil {
		return err
	}
	return b.within(ctx, "the nodes to report", b.fleet.mark)
}

// deleteTasks deletes the tasks that exist and waits until nothing is left of
// them.
func (b *bench) deleteTasks(ctx context.Context) error {
	if b.tasks.count == 0 {
		return nil
	}
	b.progress("deleting %d tasks", b.tasks.count)
	old := b.tasks
	b.tasks = set{first: old.first + old.count}
	err := b.within(ctx, "the tasks to be deleted", func(ctx context.Context) error {
		return inChunks(ctx, old, func(some set) error {
			txns := make([]broker.Txn, some.count)
			for i := range txns {
				txns[i].Then = []broker.Op{broker.Delete(b.space.Task(taskID(some.first + i)))}
			}
			_, err := commitAll(ctx, b.Broker, txns)
			return err
		})
	})
	if err != nil {
		return err
	}
	if err := b.settle(ctx, "the deleted tasks to end", b.allRun); err != nil {
		return err
	}
	return b.within(ctx, "the deleted tasks to be given back", func(ctx context.Context) error {
		return poll(ctx, func() (bool, error) {
			left, _, err := broker.Collect(ctx, b.Broker, b.space.Tasks())
			return !slices.ContainsFunc(left, b.isClaim), err
		})
	})
}

func (b *bench) isClaim(kv broker.KV) bool { return b.space.Parse(kv.Key).Kind == keys.Owner }

// pollEvery is how often something is looked at that no count tells.
const pollEvery = 20 * time.Millisecond

func poll(ctx context.Context, is func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if ok, err := is(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
