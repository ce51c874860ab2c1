package exectask

import (
	"syscall"
	"time"

	"github.com/windlass-go/windlass/internal/clock"
)

// walk is when the process table is read next. Reading it costs some
// microseconds per process of the host, so one walk serves all runs that are
// ending, and walks keep a distance.
type walk struct {
	begun  int           // walks so far
	busy   bool          // one is under way
	wanted bool          // something changed since it began
	after  time.Duration // not before this reading of Boot
	soon   time.Duration // not before this one even if a child has ended
	pause  time.Duration // to the next one while nothing changes
}

// hurry asks for a walk because a child has ended.
func (w *walk) hurry() {
	w.wanted, w.after, w.pause = true, min(w.after, w.soon), 0
}

// due says whether a walk waits for its time.
func (w *walk) due() bool { return w.wanted && !w.busy }

// scanned is a walk's outcome, with what must be known of its beginning.
type scanned struct {
	number int
	procs  []proc
	err    error
	took   time.Duration
	starts int  // l.starts when it began
	inFork bool // a start was under way when it began
}

// walkNext begins a walk if one is due. It runs beside the loop: reading the
// environment of a hanging process can itself hang.
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
		began := clock.Boot()
		s.procs, s.err = scan(runs)
		s.took = clock.Boot() - began
		l.scans <- s
	}()
}

// scanned signals what a walk found and sees which runs are gone.
func (l *loop) scanned(s scanned) {
	l.walk.busy = false
	l.walk.pause = min(max(2*l.walk.pause, scanPauseMin), scanPauseMax)
	now := clock.Boot()
	l.walk.soon = now + max(scanPauseMin, scanShare*s.took)
	l.walk.after = max(l.walk.soon, now+l.walk.pause)
	l.checkLeaders()
	if s.err != nil {
		l.walk.wanted = true
		return
	}
	alive := l.sort(s)
	for _, r := range l.runs {
		if !r.over || r.gone {
			continue
		}
		if alive[r] == 0 && s.number > r.overAt && r.empty() {
			l.vanish(r)
			continue
		}
		if r.killed && r.group != nil {
			_ = r.group.Kill() // somebody may have moved a process in
		}
		l.walk.wanted = true
	}
}

// sort gives every process to its run, signals those whose time has come, and
// counts the living outside the programs themselves.
func (l *loop) sort(s scanned) map[*run]int {
	alive := map[*run]int{}
	programs := map[int]bool{}
	for _, r := range l.runs {
		if !r.gone {
			programs[r.pid] = true
		}
	}
	var strays []proc
	for _, p := range s.procs {
		if programs[p.pid] {
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
			if p.ppid == l.self.pid {
				waitFor(p.pid)
				l.doubt(r, alive)
			}
		case r != nil:
			alive[r]++
			l.signalMember(r, p)
		case p.marker != "" || p.owner != "":
			// Marked by a run that is over: nobody has a right to it.
			_ = p.signal(syscall.SIGKILL)
			l.walk.wanted = true
		default:
			strays = append(strays, p)
		}
	}
	l.sortStrays(strays, alive)
	return alive
}

// doubtsMax bounds for how many walks zombies that could be anybody's keep one
// run from ending: another run may make such zombies all the time.
const doubtsMax = 8

// doubt keeps a run from ending by a walk that met a dead child of ours, of run
// r or, if that is nil, of nobody in sight. It may have forked after the walk
// had listed the processes and before it looked at this one, so that the walk
// missed its child. One that only met the living and the reaped missed none:
// nobody but us, and only between walks, reaps the topmost.
func (l *loop) doubt(r *run, alive map[*run]int) {
	if r != nil {
		alive[r]++
		return
	}
	for _, any := range l.runs {
		if any.over && any.doubts < doubtsMax {
			any.doubts++
			alive[any]++
		}
	}
}

// beingStarted says whether p may be the child that the forker has made and
// that has not become its program yet: it looks like a stray then.
func (l *loop) beingStarted(p proc, s scanned) bool {
	busy := s.inFork || l.inFork != nil || s.starts != l.starts
	return busy && p.ppid == l.self.pid && p.sid == l.self.sid && (p.pgrp == l.self.pgrp || p.pgrp == p.pid)
}

// signalMember passes an ending run's signal to a process outside its group;
// the group itself was signalled when it was decided.
func (l *loop) signalMember(r *run, p proc) {
	key := proc{pid: p.pid, start: p.start}
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

// sortStrays decides about processes that carry no sign of their run: they left
// the group, cleared the environment and lost their parents. With one run they
// are its own. With several, the first run that ends takes them along: leaving
// one alive could leave it without a claim, and that is the worse mistake.
func (l *loop) sortStrays(strays []proc, alive map[*run]int) {
	if len(strays) == 0 {
		return
	}
	if len(l.runs) == 1 {
		for _, r := range l.runs {
			alive[r] += len(strays)
			for _, p := range strays {
				l.signalMember(r, p)
			}
		}
		return
	}
	doomed := false
	for _, r := range l.runs {
		if r.over || r.killed {
			doomed = true
			alive[r] += len(strays)
		}
	}
	for _, p := range strays {
		if doomed {
			_ = p.signal(syscall.SIGKILL)
			l.walk.wanted = true
		}
	}
}
