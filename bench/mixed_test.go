package bench

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/tree"
)

// BenchmarkMixed queues mixedJobs jobs and submits mixedTasks tasks at each interval of
// mixedEvery, mixedTimes times.
const (
	mixedEvery = 20 * time.Millisecond
	mixedJobs  = 20
	mixedTasks = 8
	mixedTimes = 500
)

// BenchmarkMixed reports the refused claims for each granted one while jobs that do
// nothing and tasks that only wait are submitted together, at a rate that the nodes
// easily manage. If nodes disagree about the target of a task, two claim it.
func BenchmarkMixed(b *testing.B) {
	for _, n := range []int{3, 10, 30} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for range b.N {
				f := startFleet(b, 1, n, windlass.Config{SessionTTL: time.Minute})
				_, before := f.cpu()
				f.mix()
				jobs, _ := f.until(&f.completed, mixedJobs*mixedTimes, time.Now())
				tasks, _ := f.until(&f.running, mixedTasks*mixedTimes, time.Now())
				_, after := f.cpu()
				b.ReportMetric(float64(f.refused.Load())/float64(jobs+tasks), "refused/claim")
				b.ReportMetric(float64((after-before).Microseconds())/float64(jobs+tasks), "nodes-µs/claim")
				b.ReportMetric(float64(f.drifted.Load()), "moved-for-drift")
				f.end()
			}
		})
	}
}

// mix queues jobs and submits tasks in turns.
func (f *fleet) mix() {
	f.b.Helper()
	jobs := newTree(f.b, f.open())
	client := newClient(f.b, f.open())
	tick := time.NewTicker(mixedEvery)
	defer tick.Stop()
	for round := range mixedTimes {
		<-tick.C
		requests := make([]tree.Request, mixedJobs)
		for i := range requests {
			requests[i] = tree.Request{Name: fmt.Sprintf("%03d-%02d", round, i), Type: "job"}
		}
		tasks := make([]windlass.Submission, mixedTasks)
		for i := range tasks {
			tasks[i] = windlass.Submission{ID: fmt.Sprintf("mixed-%03d-%d", round, i), Spec: windlass.Spec{Type: "task"}}
		}
		_, err := jobs.Queue(f.b.Context(), requests...)
		must(f.b, errors.Join(append(client.SubmitAll(f.b.Context(), tasks), err)...))
	}
}
