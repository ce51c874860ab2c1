package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/election"
	"github.com/windlass-go/windlass/internal/view"
	"github.com/windlass-go/windlass/tree"
)

// Limits and defaults.
const (
	RefreshDefault = 250 * time.Millisecond
	RefreshMin     = 50 * time.Millisecond
	RefreshMax     = time.Minute
	// TasksDefault is the number of tasks in a snapshot, TasksMax the limit of that.
	TasksDefault = 20
	TasksMax     = 1_000_000
)

// Config says what to show.
type Config struct {
	Broker    broker.Broker
	Client    *windlass.Client
	Namespace string
	// Address is that of the broker, for people.
	Address string
	// Refresh is the time between two frames.
	Refresh time.Duration
	// Column and Reverse sort the tasks, Filter selects them.
	Column  Column
	Reverse bool
	Filter  string
	// In and Out are the terminal, Environ is the environment that describes it.
	In      io.Reader
	Out     io.Writer
	Environ []string
}

// Check returns an error that names a bad field and its limit.
func (c Config) Check() error {
	switch {
	case c.Refresh < RefreshMin || c.Refresh > RefreshMax:
		return fmt.Errorf("refresh %v: must be between %v and %v", c.Refresh, RefreshMin, RefreshMax)
	case !slices.Contains(Columns, c.Column):
		return fmt.Errorf("sort %q: must be one of %q", c.Column, Columns)
	case len(c.Filter) > inputRunesMax:
		return fmt.Errorf("filter of %d bytes: must have at most %d", len(c.Filter), inputRunesMax)
	}
	return nil
}

func (c Config) cluster() *cluster {
	k := newCluster()
	k.sortBy(c.Column, c.Reverse)
	k.setFilter(c.Filter)
	return k
}

// Run shows the cluster until the user quits, when it returns nil, or ctx or the terminal
// ends.
func Run(ctx context.Context, c Config) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer cancel(nil)
	in := c.In
	if f, ok := in.(*os.File); ok {
		in = terminal{f, func() { cancel(errGone) }}
	}
	f := newFeed(c.Client, c.Broker, c.Namespace)
	following.Go(func() { f.run(ctx) })
	m := c.model(f.take, f.showTree, &control{ctx: ctx, client: c.Client, broker: c.Broker, namespace: c.Namespace})
	_, err := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(c.Out), tea.WithEnvironment(c.Environ),
		tea.WithoutSignalHandler()).Run()
	switch {
	case errors.Is(context.Cause(ctx), errGone):
		return errGone
	case errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

var errGone = errors.New("the terminal is gone")

// terminal calls gone when it cannot be read any more: without SIGHUP, which may be ignored
// or go to another process, the program would never end.
type terminal struct {
	*os.File
	gone func()
}

// Read implements io.Reader.
func (t terminal) Read(p []byte) (int, error) {
	n, err := t.File.Read(p)
	if err != nil {
		t.gone()
	}
	return n, err
}

func (c Config) model(take func() update, showTree func(bool), k *control) *model {
	return &model{
		header: header{namespace: c.Namespace, broker: c.Address, now: time.Now()}, cluster: c.cluster(), control: k,
		take: take, showTree: showTree, refresh: c.Refresh,
	}
}

// Once reads the cluster as it is now, with at most tasksMax tasks.
func Once(ctx context.Context, c Config, tasksMax int) (view.Top, error) {
	tasks, err := c.Client.Tasks(ctx, windlass.Filter{})
	if err != nil {
		return view.Top{}, err
	}
	nodes, err := c.Client.Nodes(ctx)
	if err != nil {
		return view.Top{}, err
	}
	elections, err := election.List(ctx, c.Broker, c.Namespace)
	if err != nil {
		return view.Top{}, err
	}
	jobs, err := tree.New(c.Broker, c.Namespace)
	if err != nil {
		return view.Top{}, err
	}
	forest, err := jobs.Load(ctx)
	if err != nil {
		return view.Top{}, err
	}
	now, all := time.Now(), noChanges()
	for _, t := range tasks {
		all.tasks[t.ID] = windlass.TaskChange{Task: t}
	}
	for _, n := range nodes {
		all.nodes[n.Name] = windlass.NodeChange{Node: n}
	}
	for _, e := range elections {
		all.elections[e.Name] = election.LineChange{Election: e}
	}
	k := c.cluster()
	k.apply(all)
	t := k.snapshot(now, tasksMax)
	t.Namespace, t.Broker, t.Jobs = c.Namespace, c.Address, forest.Progress(now)
	return t, nil
}
