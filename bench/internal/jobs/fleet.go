package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/windlass-go/windlass/bench/internal/proc"
)

// fleet is the workers of a trial, and the jobs that they were given. Its methods
// are for one goroutine.
type fleet struct {
	store   store
	workers []*proc.Child
	// submitted is how many jobs there were so far, last when the last one was
	// completed.
	submitted int
	last      time.Time

	mu    sync.Mutex
	ready int
	// said is what each worker said last.
	said []said
	// changed has an element when a worker has said something.
	changed chan struct{}
}

// startFleet starts workers and returns when all of them take jobs.
func startFleet(ctx context.Context, s store, n int) (f *fleet, err error) {
	f = &fleet{store: s, said: make([]said, n), changed: make(chan struct{}, 1)}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	for i := range n {
		o := s.order()
		o.Name = fmt.Sprint("w", i)
		text, err := o.encode()
		if err != nil {
			return f, err
		}
		cmd := proc.Self(WorkerRole, text)
		if o.Tuned {
			cmd.Env = append(os.Environ(), collector)
		}
		child, err := proc.Start(cmd, func(line []byte) { f.hear(i, line) })
		if err != nil {
			return f, err
		}
		f.workers = append(f.workers, child)
	}
	return f, f.wait(ctx, func() bool { return f.ready == n })
}

func (f *fleet) hear(worker int, line []byte) {
	var s said
	if json.Unmarshal(line, &s) != nil {
		return // it is what a library prints
	}
	f.mu.Lock()
	if s.Ready {
		f.ready++
	} else {
		f.said[worker] = s
	}
	f.mu.Unlock()
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// wait returns when something holds of what was heard, which is looked at with mu
// held.
func (f *fleet) wait(ctx context.Context, holds func() bool) error {
	for {
		f.mu.Lock()
		ok := holds()
		f.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-f.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(livesEvery):
			for _, w := range f.workers {
				if err := w.Err(); err != nil {
					return err
				}
			}
		}
	}
}

// livesEvery is how often is looked whether the workers are still there, while they
// say nothing.
const livesEvery = time.Second

// done is how many jobs are completed, with mu held.
func (f *fleet) done() (n int) {
	for _, s := range f.said {
		n += int(s.Done)
	}
	if w, ok := f.store.(worker); ok {
		n, _ = w.completed()
	}
	return n
}

// work submits jobs and waits until all are completed.
func (f *fleet) work(ctx context.Context, jobs int) error {
	if err := f.store.enqueue(ctx, f.submitted, jobs); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	f.submitted += jobs
	if err := f.wait(ctx, func() bool { return f.done() >= f.submitted }); err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		return fmt.Errorf("%d of %d jobs are completed: %w", f.done(), f.submitted, err)
	}
	f.mu.Lock()
	done := f.done()
	f.last = time.Time{}
	for _, s := range f.said {
		if at := time.Unix(0, s.At); s.At != 0 && at.After(f.last) {
			f.last = at
		}
	}
	f.mu.Unlock()
	if w, ok := f.store.(worker); ok {
		_, f.last = w.completed()
	}
	if done > f.submitted {
		return fmt.Errorf("%d jobs were completed of %d", done, f.submitted)
	}
	at, err := f.store.settled(ctx)
	if at.After(f.last) {
		f.last = at
	}
	return err
}

// calm is how long nothing is to be done before a job that comes by itself: long
// enough for what a side does a moment later, and not a multiple of any interval
// that one of them polls at.
const calm = 53 * time.Millisecond

// one submits a single job, and returns how long it took until its handler ran and
// until it was completed, in milliseconds.
func (f *fleet) one(ctx context.Context) (ran, done float64, err error) {
	select {
	case <-time.After(calm):
	case <-ctx.Done():
		return 0, 0, context.Cause(ctx)
	}
	began := time.Now()
	if err := f.work(ctx, 1); err != nil {
		return 0, 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var latest int64
	for _, s := range f.said {
		latest = max(latest, s.Ran)
	}
	milliseconds := func(at time.Time) float64 { return float64(at.Sub(began)) / float64(time.Millisecond) }
	return milliseconds(time.Unix(0, latest)), milliseconds(f.last), nil
}

// usage is the processor time that was used up to a moment.
type usage struct {
	store, workers time.Duration
	ok             bool
}

func (f *fleet) usage() (u usage) {
	var workers []int
	for _, w := range f.workers {
		workers = append(workers, w.Pid())
	}
	var both bool
	u.store, u.ok = proc.CPU(f.store.pids()...)
	u.workers, both = proc.CPU(workers...)
	u.ok = u.ok && both
	return u
}

// since is what was used for each of so many jobs since another moment, in
// microseconds, and how busy the store was, in percent.
func (u usage) since(before usage, jobs int, took time.Duration) (store, workers, busy float64) {
	if !u.ok || !before.ok {
		return 0, 0, 0
	}
	each := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / float64(jobs) }
	return each(u.store - before.store), each(u.workers - before.workers), 100 * (u.store - before.store).Seconds() / took.Seconds()
}

// close ends the workers.
func (f *fleet) close() error {
	var errs []error
	for _, w := range f.workers {
		errs = append(errs, w.Close())
	}
	return errors.Join(errs...)
}
