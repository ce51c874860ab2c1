package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/windlasstest"
)

// say is the verdict of a run of a job.
type say uint8

const (
	// completes and failsForGood end the job.
	completes say = iota + 1
	failsForGood
	// fails makes it run again later, releases releases the claim, panics is a
	// failure.
	fails
	releases
	panics
	// stopped ended because it was told to stop.
	stopped
)

var says = []share[say]{{completes, 62}, {failsForGood, 10}, {fails, 12}, {releases, 10}, {panics, 6}}

// jobRun is a run of a job, by a handler or by a caller of Dequeue.
type jobRun struct {
	windlasstest.Run
	// process is nil for a script.
	process *process
	n       int
	pulled  bool
	// verdict is zero while there is none. accepted is true if the verdict of a pulled
	// run was acknowledged.
	verdict  say
	accepted bool
}

// configure draws which types of jobs a node pulls, and how many of a type it runs at a
// time.
func (j *jobs) configure(config *windlass.Config) (pulls []string) {
	config.Concurrency = map[string]int{}
	for i, jobType := range jobTypes {
		switch n := j.random.IntN(4); {
		case n < 2 && i >= len(jobTypes)-2:
			config.Pulls = append(config.Pulls, jobType)
		case n%2 == 0:
			config.Concurrency[jobType] = 1 + j.random.IntN(3)
		}
	}
	return config.Pulls
}

// begin records that a job runs.
func (j *jobs) begin(p *process, claim *windlass.Claim, pulled bool) *jobRun {
	r := p.world.newRun(windlasstest.Run{Task: claim.ID(), Node: p.Name(), Token: claim.Token()}, claim.Props())
	r.process, r.pulled = p, pulled
	j.mu.Lock()
	defer j.mu.Unlock()
	j.runs[r.Task] = append(j.runs[r.Task], r)
	if most, ok := p.concurrency[claim.Spec().Type]; ok && !pulled {
		if now := j.running(p, claim.Spec().Type); now > most {
			p.world.fail("Z13: %d handlers of type %q run on %s, which may run %d: %v", now, claim.Spec().Type, p.Name(), most, r)
		}
	}
	return r
}

// newRun returns a run that begins; the caller records it.
func (w *world) newRun(run windlasstest.Run, props json.RawMessage) *jobRun {
	run.Started = time.Now()
	r := &jobRun{Run: run}
	var data jobData
	if err := json.Unmarshal(props, &data); err != nil {
		w.fail("Z07: the data of %q are %q: %v", r.Task, props, err)
	}
	r.n = data.N
	w.begins(r.Run)
	return r
}

// running counts the handlers of a type on a process. The caller holds mu.
func (j *jobs) running(p *process, jobType string) (n int) {
	for id, runs := range j.runs {
		if typeOfJob(id) != jobType {
			continue
		}
		for _, r := range runs {
			if r.process == p && !r.pulled && r.Ended.IsZero() {
				n++
			}
		}
	}
	return n
}

// say records the verdict of a run, before anyone else learns of it.
func (j *jobs) say(r *jobRun, v say) {
	j.mu.Lock()
	defer j.mu.Unlock()
	r.verdict, r.Ended = v, time.Now()
}

// draw returns the verdict of a run and how long it takes. It depends on the claim and
// on the number of earlier runs.
func (j *jobs) draw(r *jobRun) (v say, after time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := hash(fmt.Sprint(r.Task, r.Token, len(j.runs[r.Task])))
	after = []time.Duration{0, 100 * time.Millisecond, time.Second, 2 * time.Second, 8 * time.Second, 25 * time.Second}[n/100%6]
	if j.calm {
		after /= 10
	}
	return choose(says, n%100), after
}

// work is the handler of a job.
func (h handler) work(ctx context.Context, claim *windlass.Claim) error {
	j := h.process.world.jobs
	r := j.begin(h.process, claim, false)
	v, after := j.draw(r)
	if err := h.wait(ctx, after); err != nil {
		j.say(r, stopped)
		return err
	}
	j.say(r, v)
	switch v {
	case failsForGood:
		return windlass.Permanent(errFlaky)
	case fails:
		return errFlaky
	case releases:
		return windlass.ErrRelease
	case panics:
		panic("this time it went very wrong")
	}
	if err := claim.SetResult(claim.Token()); err != nil {
		return err
	}
	return windlass.ErrDone // even if it was just told to stop: the verdict is recorded
}

// pullersMax limits the goroutines of a node that dequeue jobs of one type.
const pullersMax = 3

// pull starts the goroutines of a process that dequeue jobs.
func (p *process) pull(types []string) {
	j := p.world.jobs
	for _, jobType := range types {
		for i := range 1 + j.random.IntN(pullersMax) {
			j.pullers.Go(func() { p.dequeue(jobType, i) })
		}
	}
}

// dequeue works on jobs of a type until the node has ended.
func (p *process) dequeue(jobType string, i int) {
	for {
		take := p.Dequeue
		if i == 1 {
			take = p.TryDequeue
		}
		d, err := take(context.Background(), jobType)
		p.pass()
		switch {
		case errors.Is(err, windlass.ErrNotRunning):
			return
		case errors.Is(err, windlass.ErrEmpty):
			time.Sleep(time.Second)
		case err != nil:
			p.world.fail("Z07: dequeue on %s: %v", p.Name(), err)
			return
		default:
			p.workOn(d)
		}
	}
}

// endMax limits the time until a node answers a verdict.
const endMax = time.Hour

// workOn runs a job that was dequeued.
func (p *process) workOn(d *windlass.Dequeued) {
	j := p.world.jobs
	r := j.begin(p, d.Claim, true)
	v, after := j.draw(r)
	if err := (handler{p}).wait(d.Context(), after); err != nil {
		v = stopped
	}
	j.say(r, v)
	ctx, cancel := context.WithTimeout(context.Background(), endMax)
	defer cancel()
	var err error
	switch v {
	case completes:
		if err = d.SetResult(d.Token()); err == nil {
			err = d.Complete(ctx)
		}
	case failsForGood:
		err = d.Fail(ctx, windlass.Permanent(errFlaky))
	case fails, panics:
		err = d.Fail(ctx, errFlaky)
	default:
		err = d.Release(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		p.world.fail("Z08: for %v nobody says what became of the verdict of %v", endMax, r)
	}
	p.world.count(fmt.Sprintf("job pulled: %v", map[say]string{
		completes: "completed", failsForGood: "failed", fails: "failed once", panics: "failed once", releases: "released", stopped: "stopped",
	}[v]))
	j.mu.Lock()
	defer j.mu.Unlock()
	r.accepted = err == nil
}

// String describes the run in a failing test.
func (r *jobRun) String() string {
	return fmt.Sprintf("%q %v data=%d pulled=%t verdict=%d", r.Task, r.Run, r.n, r.pulled, r.verdict)
}

// pulledRuns returns the pulled runs of a job. They end at the latest with their
// process.
func (j *jobs) pulledRuns(id string) (runs []windlasstest.Run) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, r := range j.runs[id] {
		if r.pulled {
			runs = append(runs, r.process.cutOff(r.Run))
		}
	}
	return runs
}

// runsOf returns all runs of a task, by the time of their start.
func (w *world) runsOf(id string) []windlasstest.Run {
	runs := w.cluster.Runs(id)
	if w.elections != nil {
		runs = append(runs, w.elections.reigns(id)...)
	}
	if w.jobs != nil {
		runs = append(runs, w.jobs.pulledRuns(id)...)
		slices.SortStableFunc(runs, func(a, b windlasstest.Run) int { return a.Started.Compare(b.Started) })
	}
	return runs
}

// ran returns the IDs of all tasks that ever had a run.
func (w *world) ran() []string {
	ids := w.cluster.Ran()
	if w.jobs != nil {
		ids = append(ids, w.jobs.ids...)
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	if w.elections != nil {
		for _, name := range electionNames {
			ids = append(ids, electionID(name))
		}
	}
	return ids
}
