package simulation

import (
	"slices"
	"time"

	"github.com/windlass-go/windlass"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/inspect"
	"github.com/windlass-go/windlass/operate"
	"github.com/windlass-go/windlass/windlasstest"
)

// takeOvers are the ways in which a node loses its tasks. One at a time happens while
// all others are healthy, so that only the take-over is measured. The TTL is subtracted
// from the measured time, except for a clean stop.
var takeOvers = []struct {
	name  string
	do    func(w *world, p *process)
	undo  func(w *world, p *process)
	clean bool
}{
	{"kill", func(_ *world, p *process) { p.Kill() }, func(w *world, p *process) { w.removeUp(p); w.start(p.Name()) }, false},
	{"freeze", func(_ *world, p *process) { p.suspend() }, func(_ *world, p *process) { p.resume() }, false},
	{"partition", func(_ *world, p *process) { p.Partition() }, func(_ *world, p *process) { p.Heal() }, false},
	{"clean stop", func(w *world, p *process) { w.stopping.Go(func() { w.reap(p) }) }, func(w *world, p *process) {
		w.stopping.Wait()
		w.removeUp(p)
		w.start(p.Name())
	}, true},
}

// takeOver measures one take-over.
func (w *world) takeOver() {
	kind := takeOvers[w.random.IntN(len(takeOvers))]
	victim := w.up[w.random.IntN(len(w.up))]
	tasks := victim.Tasks()
	began := time.Now()
	kind.do(w, victim)
	limit := began.Add(3*w.profile.ttl + 20*time.Second + w.profile.returnWithin)
	for _, task := range tasks {
		if behaviourOf(task.ID) != endless || task.Parked {
			continue // it may end by itself, or be slow to stop
		}
		next, ok := w.nextRun(task.ID, task.Token, limit)
		if !ok && w.suspected(task.ID) {
			next, ok = w.nextRun(task.ID, task.Token, limit.Add(suspectsWait))
		}
		if !ok && (w.blocked(task.ID) || w.isSetAside(task.ID)) {
			continue // a task that it needs was submitted again while it ran, or it is to blame for deaths
		}
		if !ok {
			w.fail("V1: %q, %+v, was not taken over within %v of a %s of %s; it had the runs %v",
				task.ID, task, limit.Sub(began), kind.name, victim.Name(), w.cluster.Runs(task.ID))
			break
		}
		took := next.Started.Sub(began)
		if !kind.clean {
			took -= w.profile.ttl
		}
		w.report.TookOver[kind.name] = append(w.report.TookOver[kind.name], took)
	}
	kind.undo(w, victim)
	w.settle()
}

// nextRun waits for the run of a task after the one with a token.
func (w *world) nextRun(id string, token int64, limit time.Time) (windlasstest.Run, bool) {
	for {
		runs := w.cluster.Runs(id)
		if i := slices.IndexFunc(runs, func(r windlasstest.Run) bool { return r.Token > token }); i >= 0 {
			return runs[i], true
		}
		if time.Now().After(limit) {
			return windlasstest.Run{}, false
		}
		w.sleep(20 * time.Millisecond)
	}
}

// suspectsWait is how much longer the suspects of many deaths may wait for each other.
const suspectsWait = 3 * time.Minute

// anySuspects reports whether nodes have died that had just claimed tasks.
func (w *world) anySuspects() bool {
	recorded, err := operate.New(w.operator).Deaths(w.t.Context())
	return err == nil && slices.ContainsFunc(recorded, func(d events.Death) bool { return d.Recent > 0 })
}

// suspected reports whether nodes have died that held a task.
func (w *world) suspected(id string) bool {
	e, err := inspect.New(w.operator).Explain(w.t.Context(), id)
	return err == nil && len(e.Deaths) > 0
}

func (w *world) blocked(id string) bool {
	detail, err := w.client.Task(w.t.Context(), id)
	return err == nil && detail.Status == windlass.StatusBlocked
}
