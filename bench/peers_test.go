package bench

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// BenchmarkPeers compares Windlass with alternatives for jobs and for elections.
func BenchmarkPeers(b *testing.B) {
	b.Run("jobs", benchmarkPeerJobs)
	b.Run("hand-over", benchmarkHandOver)
	b.Run("take-over", benchmarkTakeOver)
}

// side is one of the compared job queues.
type side struct {
	name string
	// open starts an empty store, and skips the benchmark if it is not installed.
	open func(tb testing.TB, tuned bool) store
	// workers are the numbers of worker processes with which it is measured.
	workers []int
	// tuned selects other settings than the defaults.
	tuned bool
}

// environment returns the additional environment of the Go programs of a side. If it is
// tuned, their garbage collector runs a quarter as often, and they need more memory.
func environment(tuned bool) []string {
	if tuned {
		return []string{"GOGC=400"}
	}
	return nil
}

// sides has all compared queues. etcd-bare sends the requests of a Windlass job to etcd
// from one process that watches nothing: the limit of the store, whatever the workers do.
var sides = []side{
	{name: "windlass", open: openWindlass, workers: []int{1, 3}},
	{name: "windlass-tuned", open: openWindlass, workers: []int{1, 3}, tuned: true},
	{name: "etcd-bare", open: openBare, workers: []int{0}, tuned: true},
	{name: "river", open: openRiver, workers: []int{1, 3}},
	{name: "river-tuned", open: openRiver, workers: []int{1, 3}, tuned: true},
	{name: "asynq", open: openAsynq(redisFsyncAlways), workers: []int{1, 3}, tuned: true},
	{name: "asynq-everysec", open: openAsynq(redisFsyncEverySecond), workers: []int{1, 3}, tuned: true},
}

// store is a store of jobs, empty at first. Its methods are for one goroutine.
type store interface {
	// order returns the order for the workers, without their names.
	order() workerOrder
	// enqueue submits n jobs that do nothing, numbered from first, which no earlier job
	// had, and returns when all are acknowledged.
	enqueue(ctx context.Context, first, n int) error
	// settled returns when the jobs that the workers have reported as done are completed
	// in the store, and when that was; zero if they report only completed jobs.
	settled(ctx context.Context) (time.Time, error)
	// pids returns the processes of the store.
	pids() []int
	close() error
}

// trialSize is the size of a trial: the measured jobs, after those of the warm-up, and
// then single jobs that are submitted one by one while nothing else runs.
type trialSize struct{ jobs, warmUp, single int }

var (
	fullTrial  = trialSize{jobs: 30_000, warmUp: 3000, single: 50}
	shortTrial = trialSize{jobs: 5000, warmUp: 500, single: 5} // with -short
)

// trialMax limits a trial.
const trialMax = 5 * time.Minute

// benchmarkPeerJobs reports the rate of jobs that do nothing, from the first submission
// until the last one is completed and stored; the median times of a single job until it
// runs and until it is completed; and the processor time for a job. Each worker is a
// process, and so is the store.
func benchmarkPeerJobs(b *testing.B) {
	size := fullTrial
	if testing.Short() {
		size = shortTrial
	}
	for _, s := range sides {
		for _, workers := range s.workers {
			b.Run(fmt.Sprintf("side=%s/workers=%d", s.name, workers), func(b *testing.B) {
				for range b.N {
					r := s.trial(b, workers, size)
					b.ReportMetric(r.rate, "jobs/s")
					if len(r.done) > 0 {
						b.ReportMetric(percentile(r.ran, 50), "single-runs-ms")
						b.ReportMetric(percentile(r.done, 50), "single-done-ms")
					}
					if r.store > 0 {
						b.ReportMetric(r.store, "store-µs/job")
						b.ReportMetric(r.busy, "%-store-busy")
					}
					if r.workers > 0 {
						b.ReportMetric(r.workers, "workers-µs/job")
					}
				}
			})
		}
	}
}

// trialResult has the results of a trial.
type trialResult struct {
	rate float64
	// ran and done are the times of single jobs until their handler ran and until they
	// were completed, in milliseconds.
	ran, done []float64
	// store and workers are the processor time for a job, in microseconds. busy is the
	// processor time of the store in percent of the time, for one processor. They are
	// zero if the system does not report them.
	store, workers, busy float64
}

// trial measures a side once.
func (s side) trial(tb testing.TB, workers int, size trialSize) (r trialResult) {
	tb.Helper()
	ctx, cancel := context.WithTimeoutCause(tb.Context(), trialMax, fmt.Errorf("it took longer than %v", trialMax))
	defer cancel()
	c := startCrew(tb, s.open(tb, s.tuned), workers, make(chan struct{}, 1))
	must(tb, errors.Join(c.measure(ctx, size, &r), c.close(), c.store.close()))
	return r
}

func (c *crew) measure(ctx context.Context, size trialSize, r *trialResult) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	if err := c.work(ctx, size.warmUp); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	storeBefore, workersBefore := c.used()
	began := time.Now()
	if err := c.work(ctx, size.jobs); err != nil {
		return err
	}
	took := c.last.Sub(began)
	storeAfter, workersAfter := c.used()
	each := func(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) / float64(size.jobs) }
	r.rate = float64(size.jobs) / took.Seconds()
	r.store, r.workers = each(storeAfter-storeBefore), each(workersAfter-workersBefore)
	r.busy = 100 * (storeAfter - storeBefore).Seconds() / took.Seconds()
	if len(c.workers) == 0 {
		return nil
	}
	for range size.single {
		ran, done, err := c.one(ctx)
		if err != nil {
			return fmt.Errorf("one job: %w", err)
		}
		r.ran, r.done = append(r.ran, ran), append(r.done, done)
	}
	return nil
}

// used returns the processor time of the store and of the workers so far.
func (c *crew) used() (store, workers time.Duration) {
	var pids []int
	for _, w := range c.workers {
		pids = append(pids, w.pid())
	}
	return processorTime(c.store.pids()...), processorTime(pids...)
}

func TestPeers_EverySideCompletesEveryJob(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts every store")
	}
	for _, s := range sides {
		t.Run(s.name, func(t *testing.T) {
			workers := min(2, s.workers[len(s.workers)-1])
			r := s.trial(t, workers, trialSize{jobs: 100, warmUp: 10, single: 1})
			if r.rate <= 0 || workers > 0 && (len(r.done) != 1 || r.done[0] < r.ran[0] || r.ran[0] <= 0) {
				t.Errorf("the result is %+v", r)
			}
		})
	}
}
