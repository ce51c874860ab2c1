// Package edit stores what a client does to tasks: it submits, updates, runs again and deletes them, each in a
// transaction of its own, conditional on what it was decided by.
package edit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/attempts"
	"github.com/windlass-go/windlass/internal/depend"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/internal/meter"
	"github.com/windlass-go/windlass/internal/pause"
)

// Errors of tasks. The root package has them under the same names.
var (
	ErrNotFound  = errors.New("not found")
	ErrWorking   = errors.New("the task is being worked on")
	ErrNoParent  = errors.New("the job above it is not in the tree")
	ErrUnmetNeed = errors.New("its need is not met")
	// ErrChanged: the task is not any more what the change was based on.
	ErrChanged = errors.New("it was changed meanwhile")
)

// Chunk limits the tasks that are read or written in one call of the broker.
const Chunk = 4_000

// Batch is the submissions of one call.
type Batch struct {
	broker broker.Broker
	space  keys.Space
	rules  *Rules
	// by is who submits, empty if that is not known.
	by string
	// tasks has all of them in order, and open those that passed the checks.
	tasks, open []*Task
}

// New returns a batch of tasks, of which some may be refused already.
func New(b broker.Broker, space keys.Space, rules *Rules, by string, tasks []*Task) *Batch {
	batch := &Batch{broker: b, space: space, rules: rules, by: by, tasks: tasks}
	here := map[string]bool{}
	for i, t := range tasks {
		t.index, t.space, t.rules = i, space, rules
		if t.Err == nil {
			t.Err = t.encode()
		}
		if t.Err == nil {
			batch.open = append(batch.open, t)
			here[t.ID] = true
		}
	}
	for _, t := range batch.open {
		t.withParent = here[t.parent()]
	}
	return batch
}

// Check refuses what may not be submitted whatever is stored under its own ID. writable is the error of all of them if
// the namespace is not to be written into.
func (b *Batch) Check(ctx context.Context, writable func(context.Context) error) {
	if len(b.open) == 0 {
		return
	}
	if err := writable(ctx); err != nil {
		b.refuseAll(err)
	}
	b.refuseSkipped(ctx)
	b.refuseCycles(ctx)
}

// refuseAll refuses what is open, for one reason.
func (b *Batch) refuseAll(err error) {
	for _, t := range b.open {
		t.Err = fmt.Errorf("submit task %q: %w", t.ID, err)
	}
	b.open = nil
}

// keepOpen closes what was refused since it was opened.
func (b *Batch) keepOpen() {
	b.open = slices.DeleteFunc(b.open, func(t *Task) bool { return t.Err != nil })
}

// Store stores what has passed the checks, and sets the outcome of each task.
func (b *Batch) Store(ctx context.Context) {
	b.store(ctx)
	submitted := slices.DeleteFunc(slices.Clone(b.open), func(t *Task) bool { return t.Err != nil || t.Effect == Unchanged })
	b.takeBackCycles(ctx, submitted)
	b.noteUpdates(ctx, slices.DeleteFunc(submitted, func(t *Task) bool { return t.Err != nil }))
	for _, t := range b.open {
		if t.Err != nil && t.again {
			t.Err = attempts.Doubted(t.Err, t.doubt)
		}
	}
}

// store stores the tasks, each after those of the call that it needs.
func (b *Batch) store(ctx context.Context) {
	order, done := newOrder(b.tasks), 0
	for next := order.next(); len(next) > 0; next = order.next() {
		b.storeSome(ctx, next)
		order.settle(next)
		done += len(next)
		meter.Set(ctx, done)
	}
}

// storeSome stores tasks of which none needs another.
func (b *Batch) storeSome(ctx context.Context, open []*Task) {
	for attempt := 1; ; attempt++ {
		open = b.storeOnce(ctx, open)
		if len(open) == 0 || attempt == attempts.Max || ctx.Err() != nil {
			return
		}
		pause.For(ctx, time.Duration(attempt-1)*attempts.Pause)
	}
}

// storeOnce makes one attempt for each task and returns those to retry.
func (b *Batch) storeOnce(ctx context.Context, open []*Task) (again []*Task) {
	txns := make([]broker.Txn, len(open))
	for i, t := range open {
		txns[i] = t.txn()
	}
	var refused []*Task
	for i, r := range b.broker.Commit(ctx, txns...) {
		t := open[i]
		switch {
		case r.Err != nil:
			t.Err = fmt.Errorf("submit task %q: %w", t.ID, r.Err)
			if broker.MaybeApplied(r.Err) {
				t.again, t.doubt = true, r.Err
				again = append(again, t)
			}
		case r.OK:
			t.Err, t.Effect = nil, t.done()
			t.written, t.before = r.Revision, r.Reads
		default:
			refused = append(refused, t)
		}
	}
	return append(again, b.explain(ctx, refused)...)
}

// explain finds out from the stored data why tasks were refused, and returns those to
// retry. Few are refused, so this costs less than reading the same keys along with every
// submission.
func (b *Batch) explain(ctx context.Context, refused []*Task) (again []*Task) {
	if len(refused) == 0 {
		return nil
	}
	for i, r := range b.read(ctx, refused) {
		t := refused[i]
		retry := false
		if r.Err != nil {
			t.Err = fmt.Errorf("submit task %q: %w", t.ID, r.Err)
			if broker.MaybeApplied(r.Err) { // as little is known as before
				again = append(again, t)
			}
			continue
		}
		if t.Err, retry = t.refused(r.Reads, r.Revision); retry {
			again = append(again, t)
		}
	}
	return again
}

// read reads what is stored under the IDs of tasks, for refused.
func (b *Batch) read(ctx context.Context, some []*Task) []broker.Result {
	txns := make([]broker.Txn, len(some))
	for i, t := range some {
		all := []string{b.space.Task(t.ID), b.space.Props(t.ID), b.space.State(t.ID), b.space.Owner(t.ID), b.space.Requeue(t.ID)}
		if parent := t.parent(); parent != "" {
			all = append(all, b.space.Job(parent))
		}
		txns[i].Then = make([]broker.Op, len(all))
		for j, key := range all {
			txns[i].Then[j] = broker.Read(key)
		}
	}
	return b.broker.Commit(ctx, txns...)
}

// Preview sets the outcome that Store would have, and changes nothing. It returns an error of the broker.
func (b *Batch) Preview(ctx context.Context) error {
	order := newOrder(b.tasks)
	b.keepOpen()
	for some := range slices.Chunk(b.open, Chunk) {
		for i, r := range b.read(ctx, some) {
			t := some[i]
			if r.Err != nil {
				return fmt.Errorf("preview task %q: %w", t.ID, r.Err)
			}
			err, writes := t.refused(r.Reads, r.Revision)
			if t.Err = err; writes {
				t.Err, t.Effect = nil, t.done()
			}
		}
	}
	for next := order.next(); len(next) > 0; next = order.next() {
		order.settle(next)
	}
	for _, t := range b.tasks {
		if t.Err != nil {
			t.Effect = ""
		}
	}
	return nil
}

// order is the order in which the tasks of a call are stored.
type order struct {
	*depend.Together
	tasks []*Task
}

// newOrder returns the order of tasks, of which some may be refused already.
func newOrder(tasks []*Task) order {
	ids := make([]string, len(tasks))
	var refused []*Task
	for i, t := range tasks {
		if ids[i] = t.ID; t.Err != nil {
			refused = append(refused, t)
		}
	}
	o := order{depend.NewTogether(ids, func(i int) []string { return tasks[i].blockers() }), tasks}
	o.settle(refused)
	return o
}

// next returns tasks that can be stored now.
func (o order) next() []*Task {
	next := o.Next(Chunk)
	some := make([]*Task, len(next))
	for n, i := range next {
		some[n] = o.tasks[i]
	}
	return some
}

// settle records the outcome of some tasks, and refuses those that need a refused one.
func (o order) settle(some []*Task) {
	for _, t := range some {
		if t.Err == nil || t.rules.Already(t.Err) {
			o.Stored(t.index)
			continue
		}
		for _, r := range o.Refuse(t.index) {
			if needs := o.tasks[r.Index]; needs.Err == nil {
				needs.Err = unmetNeed(needs.ID, r.Need, t.Err)
			}
		}
	}
}

// unmetNeed returns the error for a task that needs a refused one. If the broker is the
// cause, it is that of this error as well; this task was not sent.
func unmetNeed(id, need string, cause error) error {
	err := fmt.Errorf("submit task %q: %w: %q was not submitted", id, ErrUnmetNeed, need)
	if e, ok := errors.AsType[*broker.Error](cause); ok {
		known := *e
		known.Maybe = false
		err = fmt.Errorf("%w: %w", err, &known)
	}
	return err
}
