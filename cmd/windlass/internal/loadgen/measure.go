package loadgen

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/internal/pause"
	"github.com/windlass-go/windlass/tree"
)

func taskID(number int) string { return fmt.Sprintf("%07d", number) }

// completeJobs queues jobs while nodes run them, until the last completion is stored.
func (b *bench) completeJobs(ctx context.Context, f *fleet) error {
	jobs, err := tree.New(b.store, f.namespace)
	if err != nil {
		return err
	}
	b.progress(fmt.Sprintf("running %d jobs", b.Tasks), b.Tasks)
	began := time.Now()
	err = b.inChunks(ctx, "the jobs to be queued", tree.ChildrenMax, func(ctx context.Context, first, n int) error {
		requests := make([]tree.Request, n)
		for i := range requests {
			requests[i] = tree.Request{Name: taskID(first + i), Type: jobType}
		}
		_, err := jobs.Queue(ctx, requests...)
		return err
	})
	if err == nil {
		err = f.await(ctx, "all jobs to be completed", &f.completed, b.Tasks)
	}
	if err != nil {
		return err
	}
	b.report.Jobs = b.report.Raw.rate(b.Tasks, time.Since(began))
	return nil
}

// runTasks submits tasks while nodes claim them, until all run, and then has a node die.
func (b *bench) runTasks(ctx context.Context, f *fleet) error {
	client, err := windlass.NewClient(b.store, f.namespace)
	if err != nil {
		return err
	}
	b.progress(fmt.Sprintf("starting %d tasks", b.Tasks), b.Tasks)
	began := time.Now()
	err = b.inChunks(ctx, "the tasks to be submitted", windlass.SubmitBatchMax, func(ctx context.Context, first, n int) error {
		submissions := make([]windlass.Submission, n)
		for i := range submissions {
			submissions[i].ID, submissions[i].Spec.Type = taskID(first+i), taskType
		}
		return cmp.Or(client.SubmitAll(ctx, submissions)...) // the others are hardly different
	})
	if err == nil {
		err = f.await(ctx, "all tasks to run", &f.running, b.Tasks)
	}
	if err != nil {
		return err
	}
	b.report.Started = b.report.Raw.rate(b.Tasks, time.Since(began))
	if b.Nodes == 1 {
		return nil // nobody would take over
	}
	return b.loseNode(ctx, f)
}

// inChunks calls f for all tasks, in chunks of at most most.
func (b *bench) inChunks(ctx context.Context, what string, most int, f func(ctx context.Context, first, n int) error) error {
	return b.within(ctx, what, func(ctx context.Context) error {
		for first := 0; first < b.Tasks; first += most {
			if err := f(ctx, first, min(most, b.Tasks-first)); err != nil {
				return err
			}
		}
		return nil
	})
}

// lastsFrom is how long tasks have run whose node dies in an ordinary way. What was claimed
// just before would be started again one by one, because it may have killed the node.
const lastsFrom = 12 * time.Second

// loseNode has a node die, and waits until the others run its tasks.
func (b *bench) loseNode(ctx context.Context, f *fleet) error {
	b.progress("letting the tasks run for a while", b.Tasks)
	if !pause.For(ctx, lastsFrom) {
		return context.Cause(ctx)
	}
	died, tasks, err := f.lose(ctx)
	if err != nil {
		return err
	}
	b.progress(fmt.Sprintf("a node with %d tasks has died; waiting for its session to expire", tasks), b.Tasks)
	if err := f.await(ctx, "all tasks to run after a node has died", &f.running, b.Tasks); err != nil {
		return err
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.freedAt.IsZero() { // every reply to a claim was lost, which then counts as adopted
		return nil
	}
	b.report.Lost = &Loss{Tasks: tasks, Expired: f.freedAt.Sub(died).Seconds(), Running: now.Sub(f.freedAt).Seconds()}
	return nil
}
