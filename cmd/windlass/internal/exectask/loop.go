package exectask

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/windlass-go/windlass/cmd/windlass/internal/cgroup"
	"github.com/windlass-go/windlass/internal/clock"
)

// never is later than every reading of Boot.
const never = time.Duration(math.MaxInt64)

// loop is the supervisor's state, owned by one goroutine. The reader, the forker, the
// scanner and the copiers only send to it, and it waits for none of them: the deadline
// holds even if a node, a file system or the process table hangs.
type loop struct {
	leaders *leaders
	out     *outbox
	group   *cgroup.Group // parent of the runs' groups, nil for none
	guard   *lifeline     // to the guard of the group, nil for none
	self    proc          // this process, by which a child is known before its exec

	runsMax int
	runs    map[string]*run
	queue   []*run // not started yet, in order
	starts  int    // orders given to the forker so far
	inFork  *run   // with the forker, or nil

	// Nothing starts unless known and before until.Stop.
	known bool
	until deadline

	walk walk
	gaps *gaps // shared with the copiers

	inbound chan message // closed at the end of the stream, then nil
	orders  chan *run
	forks   chan forked
	scans   chan scanned
	drained chan *run
	chld    chan os.Signal
}

func newLoop(group *cgroup.Group, guard *lifeline) (*loop, error) {
	l := &loop{
		group:   group,
		guard:   guard,
		leaders: newLeaders(),
		out:     newOutbox(),
		self:    identity(),
		gaps:    &gaps{of: map[string]gap{}},
		runsMax: runsLimit(),
		runs:    map[string]*run{},
		until:   deadline{Stop: never, Hard: never},
		inbound: make(chan message),
		orders:  make(chan *run, 1),
		forks:   make(chan forked, 1),
		scans:   make(chan scanned, 1),
		drained: make(chan *run),
		chld:    make(chan os.Signal, 1),
	}
	signal.Notify(l.chld, syscall.SIGCHLD)
	ready := make(chan error)
	go forker(ready, l.orders, l.forks, l.group)
	return l, <-ready
}

// read passes the node's messages on until the stream ends or has an error.
func read(r io.Reader, inbound chan<- message) {
	defer close(inbound)
	for {
		m, err := decode(r)
		if err != nil {
			return
		}
		inbound <- m
	}
}

// run serves until the node is gone and so are all runs.
func (l *loop) run() {
	for {
		l.step(clock.Clock(clock.Machine).Read())
		if l.inbound == nil && len(l.runs) == 0 {
			return
		}
		var due <-chan time.Time
		if wait, some := l.next(clock.Boot()); some {
			due = time.After(wait)
		}
		select {
		case m, open := <-l.inbound:
			if open {
				l.receive(m)
			} else {
				l.inbound = nil
				l.endAll(WhyStopped)
			}
		case f := <-l.forks:
			l.forked(f)
		case s := <-l.scans:
			l.scanned(s)
		case r := <-l.drained:
			r.drained = true
		case <-l.chld:
			l.walk.hurry()
			l.checkLeaders()
		case <-due:
		}
	}
}

// step does what is due.
func (l *loop) step(at clock.Reading) {
	l.guard.flush() // before anything starts
	if l.known {
		l.until.look(at)
	}
	now := at.Boot
	if now >= l.until.Stop {
		l.endAll(WhyDeadline)
	}
	for _, r := range l.runs {
		if r.killable() && now >= min(r.killAt, l.until.Hard) {
			l.kill(r)
		}
		if r.countBy != 0 && now >= r.countBy {
			l.terminate(r)
		}
		if r.gone && (r.drained || now >= r.goneAt+drainMax) {
			l.finish(r)
		}
	}
	l.startNext(now)
	l.walkNext(now)
}

// next returns the time until something is due, and false without runs. It is at most a
// tick, because timers stand still during suspend and do not follow the time of day.
func (l *loop) next(now time.Duration) (time.Duration, bool) {
	if len(l.runs) == 0 {
		return 0, false
	}
	at := now + tick
	for _, r := range l.runs {
		if r.killable() {
			at = min(at, r.killAt)
		}
		if r.countBy != 0 {
			at = min(at, r.countBy)
		}
	}
	for _, t := range []time.Duration{l.until.Stop, l.until.Hard} {
		if t > now {
			at = min(at, t)
		}
	}
	if l.walk.due() {
		at = min(at, l.walk.after)
	}
	return max(at-now, 0), true
}

// receive carries out one message of the node.
func (l *loop) receive(m message) {
	switch m.Kind {
	case kindStart:
		l.accept(m)
	case kindStop:
		if r := l.runs[m.Run]; r != nil {
			l.end(r, WhyStopped, m.Grace)
		}
	case kindDeadline:
		if m.Until != nil {
			l.known, l.until = true, *m.Until
			l.guard.tell(l.until)
		}
	case kindSample:
		if r := l.runs[m.Run]; r != nil {
			l.ask(r)
		}
	case kindPing:
		l.out.put(message{Kind: kindPong})
	}
}

// accept queues a start order or refuses it.
func (l *loop) accept(m message) {
	switch {
	case m.Start == nil || l.runs[m.Run] != nil || len(m.Start.Argv) == 0:
		l.refuse(m.Run, failStart, "malformed start order")
	case len(l.runs) >= l.runsMax:
		l.refuse(m.Run, failLimit, fmt.Sprintf("%d runs are alive: at most %d, and a third of the file limit (ulimit -n)", len(l.runs), RunsMax))
	default:
		r := &run{id: m.Run, order: m.Start, termed: map[proc]bool{}}
		l.runs[r.id] = r
		l.queue = append(l.queue, r)
	}
}

func (l *loop) refuse(id string, f failure, text string) {
	l.out.put(message{Kind: kindError, Run: id, Failure: f, Text: text})
}

// startNext gives the next run to the forker, one at a time, so that the deadline is
// checked right before each.
func (l *loop) startNext(now time.Duration) {
	for l.inFork == nil && len(l.queue) > 0 {
		r := l.queue[0]
		l.queue = l.queue[1:]
		if l.runs[r.id] != r {
			continue // ended while it waited
		}
		if text := l.noRight(now); text != "" {
			delete(l.runs, r.id)
			l.refuse(r.id, failDeadline, text)
			continue
		}
		l.inFork = r
		l.starts++
		l.orders <- r // never waits: the forker has none
	}
}

// noRight returns why nothing may start now, or "".
func (l *loop) noRight(now time.Duration) string {
	switch {
	case !l.known:
		return "no deadline was set yet"
	case now >= l.until.Stop:
		return fmt.Sprintf("the deadline passed %s ago", now-l.until.Stop)
	}
	return ""
}

// forked takes a run back from the forker.
func (l *loop) forked(f forked) {
	l.inFork = nil
	r := f.run
	if f.err != nil {
		delete(l.runs, r.id)
		l.refuse(r.id, failureOf(f.err), f.err.Error())
		return
	}
	r.pid, r.group, r.started, r.startedAt = f.pid, f.group, time.Now(), clock.Boot()
	r.output = &output{pipe: f.pipe, max: r.order.Tail, trouble: func(err error) {
		l.out.put(message{Kind: kindLog, Run: r.id, Text: err.Error()})
	}}
	go func(o *output, order *startOrder) {
		o.copy(order, l.gaps)
		l.drained <- r
	}(r.output, r.order)
	l.out.put(message{Kind: kindStarted, Run: r.id, Pid: r.pid})
	if r.ending { // was told to end while it was being started
		l.terminate(r)
	}
	l.checkLeader(r)
}

// runsLimit returns how many runs there may be. Some files must stay free, because the end
// of a run is seen in the process table.
func runsLimit() int {
	const filesEach, spare = 3, 64 // a run has a pipe, a log and the folder of its group
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur > 4*RunsMax {
		return RunsMax
	}
	return min(RunsMax, max(1, (int(files.Cur)-spare)/filesEach))
}
