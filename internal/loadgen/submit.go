package loadgen

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windlass-go/windlass"
)

// Tasks are submitted, and deleted, in calls of so many, by so many at once.
const (
	chunkTasks   = 1000
	chunksAtOnce = 4
)

// inChunks calls f for every chunk of a set, several at once. After an error no
// more are begun.
func inChunks(ctx context.Context, all set, f func(some set) error) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	errs := make([]error, chunksAtOnce)
	var failed atomic.Bool
	for w := range errs {
		workers.Go(func() {
			for !failed.Load() && ctx.Err() == nil {
				first := int(next.Add(chunkTasks)) - chunkTasks
				if first >= all.count {
					return
				}
				some := set{first: all.first + first, count: min(chunkTasks, all.count-first)}
				if errs[w] = f(some); errs[w] != nil {
					failed.Store(true)
				}
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// submitted is when what was submitted.
type submitted struct {
	began, ended time.Time
	first        int
	// at is when the call began that submitted a task, for each chunk.
	at []time.Time
}

func (s submitted) of(task int) time.Time { return s.at[(task-s.first)/chunkTasks] }

// submit submits the tasks of a run, which need others.
func (b *bench) submit(ctx context.Context, needs ...string) (s submitted, err error) {
	b.tasks.count = b.Config.Tasks
	b.ledger.grow(b.tasks.first+b.tasks.count, 0)
	b.progress("submitting %d tasks", b.tasks.count)
	s = submitted{first: b.tasks.first, at: make([]time.Time, (b.tasks.count+chunkTasks-1)/chunkTasks), began: time.Now()}
	err = b.within(ctx, "the tasks to be submitted", func(ctx context.Context) error {
		return inChunks(ctx, b.tasks, func(some set) error {
			submissions := make([]windlass.Submission, some.count)
			for i := range submissions {
				submissions[i].ID, submissions[i].Spec.Needs = taskID(some.first+i), needs
			}
			s.at[(some.first-s.first)/chunkTasks] = time.Now()
			for _, err := range b.client.SubmitAll(ctx, submissions) {
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
	s.ended = time.Now()
	return s, err
}

// submitPhase submits to nodes that claim meanwhile.
func (b *bench) submitPhase(ctx context.Context) error {
	if err := b.empty(ctx); err != nil {
		return err
	}
	s, err := b.submit(ctx)
	if err != nil {
		return err
	}
	if err := b.settle(ctx, "all submitted tasks to run", b.allRun); err != nil {
		return err
	}
	starts := b.ledger.starts()
	b.reportSubmitted(PhaseSubmit, "submitted", s)
	b.figure(PhaseSubmit, "placed, submission included", perSecond(b.tasks.count, lastStart(starts).Sub(s.began)), unitRate).
		against(limitClaims, b.limits.claimsPerSecond)
	b.times(PhaseSubmit, "from submit to start", since(firstOf(starts), s.of))
	b.reportRestarts(PhaseSubmit, starts)
	b.reportPlacement(PhaseSubmit)
	b.curve(PhaseSubmit, s.began, line{to: b.tasks.count, perSecond: b.limits.claimsPerSecond})
	return nil
}

// firstOf are the first starts of each task.
func firstOf(starts []event) (first []event) {
	for _, e := range starts {
		if e.before == nobody {
			first = append(first, e)
		}
	}
	return first
}

func (b *bench) reportSubmitted(phase, name string, s submitted) {
	b.figure(phase, name, perSecond(b.tasks.count, s.ended.Sub(s.began)), unitRate).against(limitPuts, b.limits.batchedPerSecond)
	b.progress("%s: %s %.0f/s", phase, name, perSecond(b.tasks.count, s.ended.Sub(s.began)))
}

// reportRestarts reports how many tasks were moved again while they were placed.
func (b *bench) reportRestarts(phase string, starts []event) {
	b.figure(phase, "tasks moved meanwhile", float64(len(starts)-len(firstOf(starts))), unitTasks)
}

// reportPlacement reports how tasks were claimed and how they lie.
func (b *bench) reportPlacement(phase string) {
	counts := pick(b.ledger.running, b.fleet.numbers())
	b.figure(phase, "claims lost to a race", b.fleet.lostPercent(), unitPercent)
	b.figure(phase, "tasks running", float64(sum(counts)), unitTasks)
	b.figure(phase, "difference between nodes", float64(unevenness(counts)), unitTasks)
	b.progress("%s: %d tasks run, on the nodes %v", phase, sum(counts), fmt.Sprint(counts))
}
