package exectask

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cgroup"
	"github.com/windlass-go/windlass/internal/clock"
)

// run is one command in the supervisor's hands. It goes through these, each at
// most once and in this order, except that over may come first:
//
//	queued -> started (pid) -> ending (SIGTERM) -> killed (SIGKILL) -> over (the program ended)
//	       -> gone (no process of it is alive) -> drained (output read) -> reported
//
// Invariant: from started until gone the program is not reaped, so pid names
// its group and nobody else's.
type run struct {
	id     string
	order  *startOrder
	output *output
	pid    int           // zero until started
	group  *cgroup.Group // of all that it starts, nil for none

	started, finished     time.Time
	startedAt, finishedAt time.Duration

	why    Why
	ending bool
	killAt time.Duration // while ending: SIGKILL at this reading of Boot
	killed bool
	over   bool
	overAt int // walks begun when over: only a later one can see that all are gone
	doubts int // walks that met a zombie of nobody and so could not end the run
	gone   bool
	goneAt time.Duration
	status syscall.WaitStatus

	drained bool
	termed  map[proc]bool // processes outside the group that got SIGTERM, by pid and start
}

// killable says whether SIGKILL is still to come for a run's group.
func (r *run) killable() bool { return r.ending && !r.killed && r.pid != 0 && !r.gone }

// endAll ends every run.
func (l *loop) endAll(why Why) {
	for _, r := range l.runs {
		if !r.ending {
			l.end(r, why, r.order.Grace)
		}
	}
}

// end asks a run to stop and sets when it is made to. A second call can only
// bring that moment closer.
func (l *loop) end(r *run, why Why, grace time.Duration) {
	at := clock.Boot() + grace
	if r.ending {
		r.killAt = min(r.killAt, at)
		return
	}
	r.ending, r.killAt = true, at
	if r.why == "" {
		r.why = why
	}
	if r.pid == 0 {
		if r != l.inFork {
			delete(l.runs, r.id)
			l.refuseEnded(r)
		}
		return
	}
	if grace > 0 {
		l.terminate(r)
	}
}

// terminate tells a run's group to end. Its grace, if it has any left, is over at
// killAt.
func (l *loop) terminate(r *run) {
	l.walk.wanted = true
	_ = syscall.Kill(-r.pid, syscall.SIGTERM)
	// A stopped process would not see SIGTERM until somebody continues it.
	_ = syscall.Kill(-r.pid, syscall.SIGCONT)
}

// refuseEnded answers for a run that was told to end before it was started.
func (l *loop) refuseEnded(r *run) {
	if text := l.noRight(clock.Boot()); r.why == WhyDeadline && text != "" {
		l.refuse(r.id, failDeadline, text)
		return
	}
	l.refuse(r.id, failStopped, "stopped before it was started")
}

// kill ends a run's group at once; the walk that follows finds the rest. An
// error can only mean that nobody is left there.
func (l *loop) kill(r *run) {
	r.killed = true
	l.walk.wanted = true
	_ = syscall.Kill(-r.pid, syscall.SIGKILL)
	if r.group != nil {
		_ = r.group.Kill()
	}
}

// empty tells whether nothing lives in the run's group, for all that the kernel knows.
func (r *run) empty() bool {
	if r.group == nil {
		return true
	}
	alive, err := r.group.Alive()
	return err == nil && !alive
}

func (l *loop) checkLeaders() {
	for _, r := range l.runs {
		l.checkLeader(r)
	}
}

// checkLeader notes that a run's program has ended. Whatever else it started
// gets the same grace as a stopped run: it may be shutting down in order too.
func (l *loop) checkLeader(r *run) {
	if r.pid == 0 || r.over || !l.leaders.ended(r.pid) {
		return
	}
	r.over, r.overAt = true, l.walk.begun
	r.finished, r.finishedAt = time.Now(), clock.Boot()
	if r.why == "" {
		r.why = WhyExited
	}
	l.end(r, r.why, r.order.Grace)
	l.walk.wanted = true
}

// vanish records that nothing of a run is alive. Only now is the program
// reaped and its number given back.
func (l *loop) vanish(r *run) {
	r.gone, r.goneAt = true, clock.Boot()
	r.status = l.leaders.reap(r.pid)
	if r.group != nil {
		_ = r.group.Remove() // the end of all removes it otherwise
	}
	// All that the run wrote is in the pipe by now. If the pipe does not end
	// here, somebody outside the run holds it.
	_ = r.output.pipe.SetReadDeadline(time.Now().Add(drainMax / 2))
}

// finish reports a run to the node and forgets it.
func (l *loop) finish(r *run) {
	res := Result{
		Run: r.id, Pid: r.pid, Why: r.why, Code: r.status.ExitStatus(),
		Started: r.started, Finished: r.finished, Duration: r.finishedAt - r.startedAt,
	}
	if r.status.Signaled() {
		res.Signal = unix.SignalName(r.status.Signal())
	}
	r.output.fill(&res, r.drained)
	delete(l.runs, r.id)
	l.out.put(message{Kind: kindExited, Run: r.id, Exit: &res})
}
