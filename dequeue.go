package windlass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/windlass-go/windlass/events"
)

// ErrEmpty: no task of the type can be taken now.
var ErrEmpty = errors.New("there is nothing to dequeue")

// Dequeued is a task that Node.Dequeue has taken. Like a task with a handler, it is
// held until it is completed, failed or released. The caller must call one of Complete,
// Fail and Release, even after the task's context has ended: only then does the node
// know that nobody works on the task any more.
type Dequeued struct {
	*Claim
	ctx context.Context

	once    sync.Once
	verdict chan error
	settled chan struct{}
	// outcome is valid once settled is closed.
	outcome events.Outcome
}

// Context returns a context that ends when the claim ends or is about to. Its cause is
// as for a Handler.
func (d *Dequeued) Context() context.Context { return d.ctx }

// Complete ends the task for good, with the result of the last SetResult. It returns
// once that is stored. Otherwise it returns an error that says what happened to the
// task instead: ErrLost and ErrFenced if it was no longer held. Only the first call of
// Complete, Fail and Release counts.
func (d *Dequeued) Complete(ctx context.Context) error {
	return d.end(ctx, ErrDone, events.Completed) // also when its context has ended
}

// Fail reports that the task failed. It runs again later or fails for good, as
// Spec.Retry or an error handler decides; with Permanent(err) it fails at once. A nil
// error counts as an unknown error.
func (d *Dequeued) Fail(ctx context.Context, err error) error {
	if err == nil {
		err = errors.New("unknown error")
	}
	return d.end(ctx, err, events.Failed, events.Sleeping, events.Paused, events.Released)
}

// Release gives the task back; others may take it at once.
func (d *Dequeued) Release(ctx context.Context) error {
	return d.end(ctx, ErrRelease, events.Released, events.Dropped)
}

// end sets the verdict on the task and waits until it is carried out.
func (d *Dequeued) end(ctx context.Context, verdict error, want ...events.Outcome) error {
	d.once.Do(func() { d.verdict <- verdict })
	select {
	case <-d.settled:
	case <-ctx.Done():
		return fmt.Errorf("task %q: %w", d.ID(), context.Cause(ctx))
	}
	switch {
	case slices.Contains(want, d.outcome):
		return nil
	case d.outcome == events.Dropped:
		return fmt.Errorf("task %q: %w: %w", d.ID(), ErrLost, ErrFenced)
	case d.outcome == events.Killed:
		return fmt.Errorf("task %q: %w", d.ID(), ErrKilled)
	}
	return fmt.Errorf("task %q: it was %s instead", d.ID(), d.outcome)
}

// settle publishes the outcome of the task.
func (d *Dequeued) settle(outcome events.Outcome) {
	if d == nil {
		return
	}
	d.outcome = outcome
	close(d.settled)
}

const (
	// pullSettle is how long TryDequeue waits: a task that was just submitted becomes
	// visible a moment later.
	pullSettle = 100 * time.Millisecond
	// pullMax limits how long TryDequeue waits for a node that is not ready.
	pullMax = 2 * time.Second
)

// Dequeue takes the next task of a type that is pending and not blocked: the one with
// the highest priority and, among equals, the one that was submitted first. It waits
// until there is one or ctx is done. If Run has returned, it returns ErrNotRunning. The
// type must be listed in Config.Pulls.
func (n *Node) Dequeue(ctx context.Context, taskType string) (*Dequeued, error) {
	return n.dequeue(ctx, taskType, time.Time{})
}

// TryDequeue is like Dequeue but returns ErrEmpty if there is no task to take, as far
// as the node then knows, or if the node currently takes none because it is frozen,
// draining or without its broker.
func (n *Node) TryDequeue(ctx context.Context, taskType string) (*Dequeued, error) {
	return n.dequeue(ctx, taskType, time.Now().Add(pullSettle))
}

func (n *Node) dequeue(ctx context.Context, taskType string, until time.Time) (*Dequeued, error) {
	if !n.config.pulls(taskType) {
		return nil, badInput("type", taskType, "must be one of the types that this node pulls")
	}
	p := &pull{taskType: taskType, until: until, result: make(chan pulled, 1)}
	n.pulls.add(p)
	n.wakeUp()
	var late <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(pullMax)
		defer timer.Stop()
		late = timer.C
	}
	var err error
	select {
	case r := <-p.result:
		return r.task, r.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-n.done:
		err = ErrNotRunning
	case <-late:
		err = fmt.Errorf("%w: the node takes nothing at present", ErrEmpty)
	}
	if n.pulls.cancel(p) {
		return nil, fmt.Errorf("dequeue %q: %w", taskType, err)
	}
	r := <-p.result // it came at the same time
	return r.task, r.err
}

// wakeUp makes the loop check what was asked of the node.
func (n *Node) wakeUp() {
	select {
	case n.wake <- struct{}{}:
	default: // a wake-up is pending already
	}
}

// handlerFor makes the handler of a run. It returns nil if there is none for it now: no
// call waits for a task of its type, or its type's concurrency limit is reached.
func (in *incarnation) handlerFor(r *run) NewHandler {
	taskType := r.class().Type
	r.dequeued.settle(events.Released) // an earlier run of this claim that ended without a change of state
	r.dequeued = nil
	if !in.config.pulls(taskType) {
		if !in.fleet.MayStart(taskType) {
			return nil
		}
		return in.config.handler(taskType)
	}
	p := in.node.pulls.take(taskType)
	if p == nil {
		return nil
	}
	d := &Dequeued{Claim: r.claim, verdict: make(chan error, 1), settled: make(chan struct{})}
	r.dequeued = d
	return func(Task) Handler { return delivery{task: d, pull: p} }
}

// delivery passes a task to the call of Dequeue that it was claimed for, and holds it
// while the caller works on it.
type delivery struct {
	task *Dequeued
	pull *pull
}

// Run implements Handler.
func (d delivery) Run(ctx context.Context, _ *Claim) error {
	d.task.ctx = ctx
	d.pull.result <- pulled{task: d.task}
	return <-d.task.verdict
}

// pull is a call of Dequeue.
type pull struct {
	taskType string
	// until is when to give up; zero means never.
	until  time.Time
	result chan pulled
}

// pulled is the result of a call of Dequeue.
type pulled struct {
	task *Dequeued
	err  error
}

// pulls are the waiting calls by type, in the order of their arrival.
type pulls struct {
	mu      sync.Mutex
	waiting map[string][]*pull
}

func (ps *pulls) add(p *pull) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.waiting[p.taskType] = append(ps.waiting[p.taskType], p)
}

// cancel withdraws a call. It returns false if the call has, or is about to have, its
// result.
func (ps *pulls) cancel(p *pull) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	calls := ps.waiting[p.taskType]
	i := slices.Index(calls, p)
	if i < 0 {
		return false
	}
	ps.waiting[p.taskType] = slices.Delete(calls, i, i+1)
	return true
}

// take returns the first call, nil if there is none.
func (ps *pulls) take(taskType string) *pull {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	calls := ps.waiting[taskType]
	if len(calls) == 0 {
		return nil
	}
	ps.waiting[taskType] = calls[1:]
	return calls[0]
}

// count returns the number of waiting calls.
func (ps *pulls) count(taskType string) int {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return len(ps.waiting[taskType])
}

// giveUp answers the calls whose time is over with an error, and returns when the next one's
// is.
func (ps *pulls) giveUp(taskType string, now time.Time, empty error) (next time.Time) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.waiting[taskType] = slices.DeleteFunc(ps.waiting[taskType], func(p *pull) bool {
		switch {
		case p.until.IsZero():
			return false
		case !p.until.After(now):
			p.result <- pulled{err: empty}
			return true
		}
		if next.IsZero() || p.until.Before(next) {
			next = p.until
		}
		return false
	})
	return next
}

// giveUpPulls answers the calls of TryDequeue that have waited long enough, and sets
// when to check again. Until the node knows the tasks, they wait.
func (in *incarnation) giveUpPulls(now time.Time) {
	in.pullAt = time.Time{}
	for _, taskType := range in.config.Pulls {
		if in.fleet.UnderWay(taskType) > 0 {
			continue
		}
		empty := fmt.Errorf("type %q: %w", taskType, ErrEmpty)
		if in.paused[taskType] {
			empty = fmt.Errorf("%w: type %q is paused", ErrEmpty, taskType)
		}
		if at := in.node.pulls.giveUp(taskType, now, empty); !at.IsZero() && (in.pullAt.IsZero() || at.Before(in.pullAt)) {
			in.pullAt = at
		}
	}
}
