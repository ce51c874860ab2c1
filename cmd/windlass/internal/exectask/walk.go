package exectask

import (
	"syscall"
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

// walk schedules the reading of the process table. That costs some microseconds per process
// of the host, so one walk serves all runs that are ending, and there is a pause between
// walks.
type walk struct {
	begun  int           // walks so far
	busy   bool          // one is under way
	wanted bool          // something changed since it began
	after  time.Duration // not before this reading of Boot
	soon   time.Duration // not before this one even if a child has ended
	pause  time.Duration // to the next one while nothing changes
}

// hurry asks for a walk because a child has ended, or somebody waits for its outcome.
func (w *walk) hurry() {
	w.wanted, w.after, w.pause = true, min(w.after, w.soon), 0
}

// due reports whether a walk is wanted and none is under way.
func (w *walk) due() bool { return w.wanted && !w.busy }

// scanned is a walk's outcome, with the loop's state at its beginning.
type scanned struct {
	number int
	procs  []proc
	err    error
	at     time.Duration // when it began, a reading of Boot
	took   time.Duration
	starts int  // l.starts when it began
	inFork bool // a start was under way when it began
}

// walkNext begins a walk if one is due, in a goroutine of its own, because reading the
// environment of a hanging process can hang.
func (l *loop) walkNext(now time.Duration) {
	if !l.walk.due() || now < l.walk.after || len(l.runs) == 0 {
		return
	}
	l.walk.begun++
	l.walk.busy, l.walk.wanted = true, false
	s := scanned{number: l.walk.begun, starts: l.starts, inFork: l.inFork != nil}
	runs := make(map[int]string, len(l.runs))
	for _, r := range l.runs {
		if r.pid != 0 && !r.gone {
			runs[r.pid] = r.id
		}
	}
	go func() {
		s.at = clock.Boot()
		s.procs, s.err = scan(runs)
		s.took = clock.Boot() - s.at
		l.scans <- s
	}()
}

// scanned signals the processes that a walk found, finds the runs that are gone, and tells
// the node what it has asked for.
func (l *loop) scanned(s scanned) {
	l.walk.busy = false
	l.walk.pause = min(max(2*l.walk.pause, scanPauseMin), scanPauseMax)
	now := clock.Boot()
	l.walk.soon = now + min(max(scanPauseMin, scanShare*s.took), scanPauseMax)
	l.walk.after = max(l.walk.soon, now+l.walk.pause)
	l.checkLeaders()
	if s.err != nil {
		l.walk.wanted = true
		return
	}
	alive := l.sort(s)
	for _, r := range l.runs {
		l.answer(r, s)
		if !r.over || r.gone {
			continue
		}
		if alive[r] == 0 && s.number > r.overAt && r.empty() {
			l.vanish(r)
			continue
		}
		if r.countBy != 0 && s.number > r.overAt {
			l.terminate(r)
		}
		if r.killed && r.group != nil {
			_ = r.group.Kill() // a process may have been moved in
		}
		l.walk.wanted = true
	}
}

// sort finds each process's run, sends the signals that are due, counts each run's live
// processes besides its program, and sums up what they all use.
func (l *loop) sort(s scanned) map[*run]int {
	alive := map[*run]int{}
	programs := map[int]*run{}
	for _, r := range l.runs {
		r.used = sample{At: s.at, CPU: r.reaped}
		if !r.gone {
			programs[r.pid] = r
		}
	}
	var strays []proc
	for _, p := range s.procs {
		if r := programs[p.pid]; r != nil {
			r.used.add(p)
			continue
		}
		r := l.runs[p.owner]
		if r == nil && l.group != nil && !p.zombie {
			r = l.runs[l.group.ChildOf(p.pid)]
		}
		if r == nil {
			r = l.runs[p.marker]
		}
		switch {
		case r == nil && l.beingStarted(p, s):
			l.walk.wanted = true
		case p.zombie:
			if r != nil {
				r.used.add(p)
			}
			if p.ppid == l.self.pid {
				_ = waitFor(p.pid)
				if r != nil {
					r.reaped += p.cpu
				}
				l.doubt(r, alive)
			}
		case r != nil:
			alive[r]++
			r.used.add(p)
			r.outlives(p, s)
			l.signalMember(r, p)
		case p.marker != "" || p.owner != "":
			_ = p.signal(syscall.SIGKILL) // its run is over
			l.walk.wanted = true
		default:
			strays = append(strays, p)
		}
	}
	l.sortStrays(strays, alive, s)
	return alive
}

// doubtsMax is for how many walks zombies of unknown run keep one run from ending: another
// run may make such zombies all the time.
const doubtsMax = 8

// doubt keeps run r, or all runs if r is nil, from ending by a walk that found a zombie
// child of the supervisor: it may have forked after the walk had listed the processes, so
// that the walk missed its child. A walk without such a zombie missed none, because only
// the supervisor reaps them, and only between walks.
func (l *loop) doubt(r *run, alive map[*run]int) {
	if r != nil {
		alive[r]++
		return
	}
	for _, r := range l.runs {
		if r.over && r.doubts < doubtsMax {
			r.doubts++
			alive[r]++
		}
	}
}

// beingStarted reports whether p may be a child of the forker before its exec, which looks
// like a stray.
func (l *loop) beingStarted(p proc, s scanned) bool {
	busy := s.inFork || l.inFork != nil || s.starts != l.starts
	return busy && p.ppid == l.self.pid && p.sid == l.self.sid && (p.pgrp == l.self.pgrp || p.pgrp == p.pid)
}

// key identifies a process, whatever becomes of it.
func (p proc) key() proc { return proc{pid: p.pid, start: p.start} }

// signalMember sends an ending run's signal to a process of it. Those in its group have had
// SIGTERM.
func (l *loop) signalMember(r *run, p proc) {
	key := p.key()
	switch {
	case r.killed:
		_ = p.signal(syscall.SIGKILL)
	case p.pgrp == r.pid:
	case r.ending && !r.termed[key]:
		r.termed[key] = true
		_ = p.signal(syscall.SIGTERM)
		_ = p.signal(syscall.SIGCONT)
	}
}

// sortStrays handles processes that left their group, cleared the environment and lost
// their parents. If there is one run, they belong to it. Among several they end with the
// first run that ends, because it would be worse to let one live without a claim.
func (l *loop) sortStrays(strays []proc, alive map[*run]int, s scanned) {
	for _, p := range strays {
		for _, r := range l.runs {
			switch {
			case len(l.runs) == 1:
				alive[r]++
				r.used.add(p)
				r.outlives(p, s)
				l.signalMember(r, p)
			case r.over || r.killed:
				alive[r]++
				_ = p.signal(syscall.SIGKILL)
				l.walk.wanted = true
			}
		}
	}
}
