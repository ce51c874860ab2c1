package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/session"
)

// The types: tasks wait until they are stopped, jobs do nothing.
const (
	taskType = "task"
	jobType  = "job"
)

// fleet is the nodes of one part of a run.
type fleet struct {
	bench     *bench
	namespace string
	members   []*member
	// joined counts nodes, running tasks, and completed the jobs whose completion is stored.
	joined, running, completed atomic.Int64
	// changed has an element when a count has changed.
	changed chan struct{}
	nodes   sync.WaitGroup

	mu sync.Mutex
	// lost is the node that has died, and freedAt the time at which the others first saw
	// one of its tasks without an owner; zero before.
	lost    string
	freedAt time.Time
}

type member struct {
	node    *windlass.Node
	store   broker.Broker
	stop    context.CancelFunc
	running atomic.Int64
}

// settleFor is the time for nodes that have joined to learn of each other.
const settleFor = time.Second

// onFleet runs nodes in a namespace while measure runs, until a node fails.
func (b *bench) onFleet(ctx context.Context, namespace string, measure func(context.Context, *fleet) error) (err error) {
	f := &fleet{bench: b, namespace: namespace, changed: make(chan struct{}, 1)}
	ctx, fail := context.WithCancelCause(ctx)
	defer func() {
		fail(nil)
		f.nodes.Wait()
		for _, m := range f.members {
			err = errors.Join(err, m.store.Close())
		}
	}()
	b.progress(fmt.Sprintf("starting %d node(s)", b.Nodes), b.Nodes)
	for i := range b.Nodes {
		m, err := f.newMember(ctx, fmt.Sprintf("bench-%d", i+1))
		if err != nil {
			return err
		}
		var running context.Context
		running, m.stop = context.WithCancel(ctx)
		f.nodes.Go(func() {
			if err := m.node.Run(running); err != nil {
				fail(fmt.Errorf("node %s: %w", m.node.Name(), err))
			}
		})
	}
	if err := f.await(ctx, fmt.Sprintf("%d node(s) to join", b.Nodes), &f.joined, b.Nodes); err != nil {
		return err
	}
	if !pause.For(ctx, settleFor) {
		return context.Cause(ctx)
	}
	return measure(ctx, f)
}

// newMember makes a node with its own connection, as in a real fleet.
func (f *fleet) newMember(ctx context.Context, name string) (*member, error) {
	m := &member{}
	err := f.bench.within(ctx, "the broker to accept a connection", func(ctx context.Context) (err error) {
		m.store, err = f.bench.Connect(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	f.members = append(f.members, m)
	m.node, err = windlass.NewNode(windlass.Config{
		Broker: m.store, Namespace: f.namespace, Name: name, SessionTTL: f.bench.SessionTTL, Clock: f.bench.clock,
		Handlers: map[string]windlass.NewHandler{
			taskType: windlass.HandlerFunc(func(ctx context.Context, _ *windlass.Claim) error {
				m.running.Add(1)
				f.count(&f.running, 1)
				<-ctx.Done()
				m.running.Add(-1)
				f.count(&f.running, -1)
				return windlass.ErrRelease
			}),
			jobType: windlass.HandlerFunc(func(context.Context, *windlass.Claim) error { return nil }),
		},
		Events: events.Node{
			Joined: func(string, session.Timing) { f.count(&f.joined, 1) },
			Ended: func(e events.End) {
				if e.Outcome == events.Completed {
					f.count(&f.completed, 1)
				}
			},
			Granted: f.granted,
		},
	})
	return m, err
}

func (f *fleet) count(what *atomic.Int64, n int64) {
	what.Add(n)
	select {
	case f.changed <- struct{}{}:
	default: // await will see this change, too
	}
}

// await waits until a count has a value.
func (f *fleet) await(ctx context.Context, what string, count *atomic.Int64, want int) error {
	return f.bench.within(ctx, what, func(ctx context.Context) error {
		for {
			n := int(count.Load())
			if f.bench.Done != nil {
				f.bench.Done(n)
			}
			if n == want {
				return nil
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-f.changed:
			}
		}
	})
}

func (f *fleet) granted(g events.Grant) {
	at := time.Now().Add(-g.Waited)
	f.mu.Lock()
	defer f.mu.Unlock()
	if g.Cause == events.TakenOver && f.lost != "" && g.From == f.lost && (f.freedAt.IsZero() || at.Before(f.freedAt)) {
		f.freedAt = at
	}
}

// lose ends the node with the most tasks, and returns the time and their number. It closes the
// connection first, so that the node can give nothing back and its session has to expire.
func (f *fleet) lose(ctx context.Context) (at time.Time, tasks int, err error) {
	victim := slices.MaxFunc(f.members, func(a, b *member) int { return cmp.Compare(a.running.Load(), b.running.Load()) })
	at, tasks = time.Now(), int(victim.running.Load())
	if err := victim.store.Close(); err != nil {
		return at, tasks, err
	}
	f.mu.Lock()
	f.lost = victim.node.Name()
	f.mu.Unlock()
	victim.stop()
	return at, tasks, f.bench.within(ctx, "the node that dies to stop", func(ctx context.Context) error {
		select {
		case <-victim.node.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
}
