package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// workerRole is the role of a process that takes jobs.
const workerRole = "worker"

// workerOrder is the order for a worker process.
type workerOrder struct {
	System   string `json:"system"` // a key of consumers
	Name     string `json:"name"`
	Address  string `json:"address"` // of the store
	Password string `json:"password,omitempty"`
	Tuned    bool   `json:"tuned"`
}

// consumers are the functions of the workers. Each takes jobs until ctx ends, and reports
// that it is ready when it has begun.
var consumers = map[string]func(context.Context, workerOrder, *counter) error{
	systemWindlass: consumeWindlass, systemRiver: consumeRiver, systemAsynq: consumeAsynq, systemWaiting: consumeWaiting,
}

// said is a line of output of a worker.
type said struct {
	// Ready distinguishes the line from the output of a library.
	Ready bool `json:"ready"`
	// Done is the number of jobs that the worker has completed, At when the last one was
	// completed, and Ran when the handler of the last one began, in nanoseconds of the
	// wall clock, which the processes of a machine share.
	Done int64 `json:"done"`
	At   int64 `json:"at"`
	Ran  int64 `json:"ran"`
}

// sayEvery is how often a worker reports its completed jobs.
const sayEvery = 5 * time.Millisecond

// counter counts what a worker completes. Its methods are safe for concurrent use.
type counter struct {
	begun         chan struct{} // closed when the worker takes jobs
	done, at, ran atomic.Int64
}

// ready records that the worker takes jobs.
func (c *counter) ready() { close(c.begun) }

// runs records that a handler begins.
func (c *counter) runs() { c.ran.Store(time.Now().UnixNano()) }

// completes records that a job is completed.
func (c *counter) completes() {
	c.at.Store(time.Now().UnixNano())
	c.done.Add(1)
}

// tell reports the completed jobs whenever their number has changed, until ctx ends.
func (c *counter) tell(ctx context.Context, out io.Writer) {
	select {
	case <-c.begun:
	case <-ctx.Done():
		return
	}
	lines := json.NewEncoder(out)
	again := time.NewTicker(sayEvery)
	defer again.Stop()
	for last := int64(-1); ; {
		if done := c.done.Load(); done != last {
			last = done
			_ = lines.Encode(said{Ready: true, Done: done, At: c.at.Load(), Ran: c.ran.Load()}) // it fails if the reader is gone; the input ends then
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// runWorker is the function of a worker process. It takes jobs until in ends.
func runWorker(ctx context.Context, in io.Reader, out io.Writer, order string) error {
	var o workerOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return fmt.Errorf("which worker: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := &counter{begun: make(chan struct{})}
	var printing sync.WaitGroup
	printing.Go(func() { c.tell(ctx, out) })
	var reader sync.WaitGroup // not waited for: if the worker fails first, the process ends
	reader.Go(func() { _, _ = io.Copy(io.Discard, in); stop() })
	err := consumers[o.System](ctx, o, c)
	if ctx.Err() == nil && err == nil {
		err = errors.New("the worker has stopped by itself")
	}
	stop()
	printing.Wait()
	return err
}

// crew has the workers of a trial, and counts their jobs. Its methods are for one
// goroutine, except hear.
type crew struct {
	store   store
	workers []*child
	// submitted is the number of jobs so far, last when the last one was completed.
	submitted int
	last      time.Time

	mu sync.Mutex
	// said has the last report of each worker.
	said []said
	// changed has an element when a worker has reported something.
	changed chan struct{}
}

func startCrew(tb testing.TB, s store, workers int, changed chan struct{}) *crew {
	tb.Helper()
	c := &crew{store: s, said: make([]said, workers), changed: changed}
	o := s.order()
	for i := range workers {
		o.Name = fmt.Sprint("w", i)
		order, err := json.Marshal(o)
		must(tb, err)
		c.workers = append(c.workers, startChild(tb, self(workerRole, string(order), environment(o.Tuned)...), func(line []byte) { c.hear(i, line) }))
	}
	return c
}

// ready waits until all workers take jobs.
func (c *crew) ready(ctx context.Context) error {
	return c.wait(ctx, func() bool {
		return !slices.ContainsFunc(c.said, func(s said) bool { return !s.Ready })
	})
}

func (c *crew) hear(worker int, line []byte) {
	var s said
	if json.Unmarshal(line, &s) != nil || !s.Ready {
		return // it is the output of a library
	}
	c.mu.Lock()
	c.said[worker] = s
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// livesEvery is how often the workers are checked while they report nothing.
const livesEvery = time.Second

// wait returns when holds does, which is called with mu held.
func (c *crew) wait(ctx context.Context, holds func() bool) error {
	for {
		c.mu.Lock()
		ok := holds()
		c.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-c.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(livesEvery):
			for _, w := range c.workers {
				select {
				case <-w.over:
					return errors.Join(errors.New("a worker has ended"), w.err)
				default:
				}
			}
		}
	}
}

// work submits jobs and waits until all are completed. Without workers, an acknowledged
// job is completed.
func (c *crew) work(ctx context.Context, n int) error {
	if err := c.store.enqueue(ctx, c.submitted, n); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	c.submitted += n
	c.last = time.Time{}
	done := 0
	err := c.wait(ctx, func() bool {
		done = 0
		for _, s := range c.said {
			done += int(s.Done)
			if at := time.Unix(0, s.At); s.At != 0 && at.After(c.last) {
				c.last = at
			}
		}
		return done >= c.submitted || len(c.said) == 0
	})
	if err == nil && done > c.submitted {
		err = errors.New("more than there are")
	}
	if err != nil {
		return fmt.Errorf("%d of %d jobs are completed: %w", done, c.submitted, err)
	}
	at, err := c.store.settled(ctx)
	if at.After(c.last) {
		c.last = at
	}
	return err
}

// calmBefore is the idle time before a single job: long enough for delayed work of a
// side, and not a multiple of any polling interval.
const calmBefore = 53 * time.Millisecond

// one submits a single job, and returns the milliseconds until its handler ran and until
// it was completed.
func (c *crew) one(ctx context.Context) (ran, done float64, err error) {
	<-time.After(calmBefore)
	began := time.Now()
	if err := c.work(ctx, 1); err != nil {
		return 0, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var latest int64
	for _, s := range c.said {
		latest = max(latest, s.Ran)
	}
	return milliseconds(time.Unix(0, latest).Sub(began)), milliseconds(c.last.Sub(began)), nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// close ends the workers.
func (c *crew) close() error {
	var errs []error
	for _, w := range c.workers {
		errs = append(errs, w.close())
	}
	return errors.Join(errs...)
}

// fakeStore completes each job when it is submitted; if twice is 1, the last one twice.
type fakeStore struct {
	store
	crew    *crew
	twice   int64
	settles time.Time
}

func (f *fakeStore) enqueue(_ context.Context, first, n int) error {
	done := int64(first+n) + f.twice
	f.crew.hear(0, []byte("a library says hello"))
	f.crew.hear(0, fmt.Appendf(nil, `{"ready":true,"done":%d,"at":100,"ran":50}`, done/2))
	f.crew.hear(1, fmt.Appendf(nil, `{"ready":true,"done":%d,"at":200,"ran":60}`, done-done/2))
	return nil
}

func (f *fakeStore) settled(context.Context) (time.Time, error) { return f.settles, nil }

func TestCrew_WorkEndsWithTheLastCompletion(t *testing.T) {
	f := &fakeStore{}
	f.crew = &crew{store: f, said: make([]said, 2), changed: make(chan struct{}, 1)}
	for range 2 {
		if err := f.crew.work(t.Context(), 7); err != nil || f.crew.last.UnixNano() != 200 {
			t.Errorf("the last completion was at %v (%v)", f.crew.last, err)
		}
	}
	f.settles = time.Unix(0, 300)
	if err := f.crew.work(t.Context(), 1); err != nil || !f.crew.last.Equal(f.settles) {
		t.Errorf("the last completion was at %v, want %v (%v)", f.crew.last, f.settles, err)
	}
	f.twice = 1
	if err := f.crew.work(t.Context(), 3); err == nil || !strings.Contains(err.Error(), "19 of 18 jobs") {
		t.Errorf("%v, want an error with both numbers", err)
	}
}
