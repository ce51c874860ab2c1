package windlass

import (
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/placement"
)

// leaving are the tasks that this node gives away of its own accord. They are
// told to stop a few at a time, as fast as others take them up: all at once,
// each would stand still until its turn among the claims of thousands came.
type leaving struct {
	// queue are the tasks that will be told to stop, in order.
	queue []departure
	// nextAt is when the next may be.
	nextAt time.Time
	// stopped are those whose handler has returned, since when, until somebody
	// else holds them.
	stopped map[string]time.Time
	// moving are those that are meant for another node, until the mirror shows
	// that this one does not hold them any more.
	moving map[string]moving
	// nextRound is the trigger to balance for when these are gone; zero for none.
	nextRound Trigger
}

type departure struct {
	run   *run
	cause error
}

type moving struct {
	to    string
	class *placement.Class
}

// announceAfter is how long a handler may take to stop before it is noted beside
// its task where that is going, for whoever plans meanwhile.
const announceAfter = 100 * time.Millisecond

// The pace of leaving: at most so many stand still, and in each step at most so
// many more are told to stop. One that nobody takes up is not waited for.
const (
	leavingWindow = 40
	leavingStep   = 5 * time.Millisecond
	leavingMax    = time.Second
)

// depart queues a task to be given away: to a node, or to anyone if that is
// empty.
func (in *incarnation) depart(id, to string, cause error) {
	r := in.runs[id]
	in.hold(id)
	r.departing, r.handTo = true, to
	in.countRun(r)
	if to != "" {
		in.leaving.moving[id] = moving{to: to, class: r.class()}
		in.fleet.Hold(to, r.class(), 1)
	}
	in.leaving.queue = append(in.leaving.queue, departure{run: r, cause: cause})
}

// leavingPass tells the next tasks to stop.
func (in *incarnation) leavingPass(now time.Time) {
	l := &in.leaving
	if in.lost || in.closing {
		l.queue = nil // everything was told to stop
	}
	if len(l.queue) == 0 || now.Before(l.nextAt) {
		return
	}
	l.nextAt = now.Add(leavingStep)
	if len(l.stopped) >= leavingWindow {
		for id, since := range l.stopped {
			if now.Sub(since) >= leavingMax {
				delete(l.stopped, id)
			}
		}
	}
	for n := leavingWindow - len(l.stopped); n > 0 && len(l.queue) > 0; n-- {
		d := l.queue[0]
		l.queue = l.queue[1:]
		if id := d.run.claim.ID(); in.runs[id] == d.run {
			in.hold(id)
			in.stopRun(id, d.cause)
			if d.run.handTo != "" && d.run.phase == phaseStopping {
				in.out.hints.Put(id, in.hint(d.run), now.Add(announceAfter))
			}
		}
	}
}

// hint notes where a task is going. If it is not written, nobody knows before the task is
// released.
func (in *incarnation) hint(r *run) broker.Txn {
	return broker.Txn{
		If:   []broker.Cond{broker.Created(in.node.space.Owner(r.claim.id), r.claim.token())},
		Then: []broker.Op{broker.PutSession(in.node.space.Handover(r.claim.id), coordinator.OwnerValue(r.handTo), in.session.ID())},
	}
}

// stillLeaves tells whether the handler of a task that is going elsewhere has not returned.
func (in *incarnation) stillLeaves(id string, _ broker.Txn) bool {
	r := in.runs[id]
	return r != nil && r.phase == phaseStopping && r.handTo != ""
}

// stay takes back what was queued to be given away.
func (in *incarnation) stay() {
	for _, d := range in.leaving.queue {
		id := d.run.claim.ID()
		if in.runs[id] != d.run {
			continue
		}
		d.run.departing, d.run.handTo = false, ""
		in.moved(id)
		in.countRun(d.run)
		in.obey(d.run) // to what it was told while it was to leave
	}
	in.leaving.queue, in.leaving.nextRound = nil, 0
}

// moved takes a task off those on their way, and goes on with the next round of
// moves after the last.
func (in *incarnation) moved(id string) {
	m, ok := in.leaving.moving[id]
	if !ok {
		return
	}
	delete(in.leaving.moving, id)
	in.fleet.Hold(m.to, m.class, -1)
	if trigger := in.leaving.nextRound; len(in.leaving.moving) == 0 && trigger != 0 {
		in.leaving.nextRound, in.triggers.due = 0, trigger
	}
}
