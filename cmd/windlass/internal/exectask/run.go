package exectask

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cgroup"
	"github.com/windlass-go/windlass/internal/clock"
)

// run is one command in the supervisor. It goes through these states, each at most once
// and in this order, except that over may come before ending and killed:
//
//	queued -> started (pid) -> ending (SIGTERM) -> killed (SIGKILL) -> over (the program ended)
//	       -> gone (no process of it is alive) -> drained (output read) -> reported
//
// Invariant: from started until gone the program is not reaped, so pid is the ID of its
// group and of no other.
type run struct {
	id     string
	order  *startOrder
	output *output
	pid    int           // zero until started
	group  *cgroup.Group // nil for none

	started, finished     time.Time
	startedAt, finishedAt time.Duration

	why    Why
	ending bool
	killAt time.Duration // while ending: SIGKILL at this reading of Boot
	killed bool
	over   bool
	overAt int // number of the last walk begun when over; only a later one can end the run
	// countBy is when the processes that the program has left get SIGTERM, a reading of Boot,
	// even if no walk has counted them before; zero if there is nothing to count.
	countBy time.Duration
	doubts  int // walks that did not end the run because of a zombie of unknown run
	gone    bool
	goneAt  time.Duration
	status  syscall.WaitStatus

	drained bool
	asked   bool          // the node waits for a sample
	askedAt int           // number of the last walk begun then
	used    sample        // by the last walk
	reaped  time.Duration // CPU time of its processes that the supervisor has reaped
	termed  map[proc]bool // processes outside the group that got SIGTERM, by pid and start
	// outlived has the processes that were seen alive after the program had exited, by pid
	// and start, at most outlivedMax.
	outlived map[proc]bool
}

// countMax is how long the processes that a program has left are not sent SIGTERM because
// they are to be counted: one that has died of it cannot be told from one that the program
// itself has ended.
const countMax = time.Second

// outlivedMax limits how many processes of a run are counted that outlive its program.
const outlivedMax = 1 << 16

// outlives counts a process that a walk found alive if the program had ended by itself before
// the walk began.
func (r *run) outlives(p proc, s scanned) {
	if p.dying || !r.over || r.why != WhyExited || s.number <= r.overAt || len(r.outlived) >= outlivedMax {
		return
	}
	if r.outlived == nil {
		r.outlived = map[proc]bool{}
	}
	r.outlived[p.key()] = true
}

// killable reports whether the run's group is still to get SIGKILL.
func (r *run) killable() bool { return r.ending && !r.killed && r.pid != 0 && !r.gone }

// endAll ends every run.
func (l *loop) endAll(why Why) {
	for _, r := range l.runs {
		if !r.ending {
			l.end(r, why, r.order.Grace)
		}
	}
}

// end tells a run to stop and sets when it is killed. A second call can only bring that
// moment closer.
func (l *loop) end(r *run, why Why, grace time.Duration) {
	at := clock.Boot() + grace
	if r.ending {
		if r.killAt = min(r.killAt, at); r.countBy != 0 {
			l.terminate(r)
		}
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
	switch {
	case grace <= 0:
	case r.why == WhyExited:
		l.walk.wanted, r.countBy = true, clock.Boot()+min(countMax, grace/2)
	default:
		l.terminate(r)
	}
}

// terminate sends SIGTERM to a run's group.
func (l *loop) terminate(r *run) {
	l.walk.wanted, r.countBy = true, 0
	_ = syscall.Kill(-r.pid, syscall.SIGTERM)
	// A stopped process would not get SIGTERM until it is continued.
	_ = syscall.Kill(-r.pid, syscall.SIGCONT)
}

// refuseEnded reports a run that was told to end before it was started.
func (l *loop) refuseEnded(r *run) {
	if text := l.noRight(clock.Boot()); r.why == WhyDeadline && text != "" {
		l.refuse(r.id, failDeadline, text)
		return
	}
	l.refuse(r.id, failStopped, "stopped before it was started")
}

// kill sends SIGKILL to a run's group; the next walk finds the rest. An error can only
// mean that the group is empty.
func (l *loop) kill(r *run) {
	r.killed, r.countBy = true, 0
	l.walk.hurry() // the node waits for the end, and may end itself if that takes long
	_ = syscall.Kill(-r.pid, syscall.SIGKILL)
	if r.group != nil {
		_ = r.group.Kill()
	}
}

// empty reports whether the kernel sees no live process in the run's control group.
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

// checkLeader records that a run's program has ended. Its other processes get the same
// grace as a stopped run, since they may be shutting down in order.
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

// vanish records that no process of a run is alive. Only now is the program reaped and its
// ID free.
func (l *loop) vanish(r *run) {
	r.gone, r.goneAt, r.countBy = true, clock.Boot(), 0
	r.status = l.leaders.reap(r.pid)
	if r.group != nil {
		_ = r.group.Remove() // after an error the end of the parent group removes it
	}
	// All that the run wrote is in the pipe by now. If the pipe does not end here, a
	// process outside the run holds it.
	_ = r.output.pipe.SetReadDeadline(time.Now().Add(drainMax / 2))
}

// finish reports a run to the node and forgets it.
func (l *loop) finish(r *run) {
	res := Result{
		Run: r.id, Pid: r.pid, Why: r.why, Code: r.status.ExitStatus(),
		Started: r.started, Finished: r.finished, Duration: r.finishedAt - r.startedAt, Outlived: len(r.outlived),
	}
	if r.status.Signaled() {
		res.Signal = unix.SignalName(r.status.Signal())
	}
	r.output.fill(&res, r.drained)
	delete(l.runs, r.id)
	l.out.put(message{Kind: kindExited, Run: r.id, Exit: &res})
}
