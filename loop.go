package windlass

import (
	"context"
	"time"
)

// loop is the node's one loop. It ends when everything was given back after ctx
// was done, when the session was lost and every handler has returned, or when
// the time for either is over. ending bounds the calls that end claims.
func (in *incarnation) loop(ctx, ending context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop, lost := ctx.Done(), in.session.Context().Done()
	var hard <-chan struct{}
	for {
		timer.Reset(in.step(ending))
		select {
		case take := <-in.updates:
			take()
		case take := <-in.inbox:
			take()
		case <-in.node.wake:
		case <-timer.C:
		case <-stop:
			stop = nil
			in.beginClosing()
		case <-lost:
			lost, hard = nil, in.session.HardPassed()
			in.sessionLost()
		case <-hard:
			return // what has not returned was reported, and is left behind
		}
		in.takeArrived()
		if in.finished() {
			return
		}
	}
}

// arrivedMax bounds what is taken in before what is due is done.
const arrivedMax = 256

// takeArrived takes in what else has arrived by now, so that all of it is answered
// once. With many nodes most of what arrives tells of what others do, and a node that
// answered each by itself would fall ever further behind.
func (in *incarnation) takeArrived() {
	for range arrivedMax {
		select {
		case take := <-in.updates:
			take()
		case take := <-in.inbox:
			take()
		default:
			return
		}
	}
}

// step does what is due and returns how long nothing else is.
func (in *incarnation) step(ending context.Context) time.Duration {
	now := time.Now()
	in.drainStep(now)
	in.giveAway(now)
	in.wakeParked(now)
	in.timeoutStep(now)
	in.auditStep(now)
	in.loadStep(now)
	in.lateStep(now)
	if in.mayClaim() {
		in.claimPass(now)
		in.giveUpPulls(now)
	}
	// What to give away is decided by what is open and being claimed by now.
	in.giving.Pass(now)
	in.giveAway(now)
	in.send(ending, now)
	return in.nextWake(now)
}

// nextWake is how long until something is due by itself. What is due already and
// has to wait for something else, a call in flight or the end of the handlers,
// must not count: the loop would spin.
func (in *incarnation) nextWake(now time.Time) time.Duration {
	next := now.Add(time.Minute)
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	in.wakeToSend(now, earlier)
	switch {
	case in.lost: // the session tells when its hard deadline passes
	case in.closing:
		earlier(in.closeBy)
	default:
		in.wakeForTasks(now, earlier)
		earlier(in.parked.next())
		earlier(in.timeouts.Next())
		earlier(in.giving.Wake(in.toldOthers()))
		earlier(in.loadAt)
		earlier(in.board.Lag.Next())
		earlier(in.auditAt)
	}
	return max(next.Sub(now), 0)
}

// wakeForTasks names the times at which something could be claimed.
func (in *incarnation) wakeForTasks(now time.Time, earlier func(time.Time)) {
	switch {
	case in.mayClaim():
		earlier(in.board.Wake(now))
		earlier(in.pullAt)
	case !in.frozenOrLeaving() && in.board.Waiting():
		earlier(now.Add(in.session.Timing().Renew)) // the session is late in its life
	}
}

// frozenOrLeaving tells whether the node means to claim nothing.
func (in *incarnation) frozenOrLeaving() bool {
	return in.closing || in.lost || in.info.Frozen || in.info.Draining
}

// mayClaim tells whether claims can be made now: both copies are there, that of the
// nodes without a gap, and the commands to tasks, and enough of the session is left.
func (in *incarnation) mayClaim() bool {
	return !in.frozenOrLeaving() && in.tasks.Revision() > 0 && in.fleet.Complete(in.nodes.Revision(), time.Now()) && in.ordersKnown && in.session.MayStart()
}

// beginClosing stops everything, in order, because the node's context is done.
func (in *incarnation) beginClosing() {
	if in.lost {
		return
	}
	in.closing = true
	in.deactivate()
	in.closeBy = time.Now().Add(in.shutdownGrace())
	in.info.Returning = in.config.ReturnWithin > 0
	in.info.Draining = !in.info.Returning
	in.out.publishInfo()
	in.out.info.Pause(time.Time{})
	in.dropQueued()
	for id := range in.runs {
		in.stopRun(id, ErrDraining)
	}
}

// sessionLost waits for the handlers, whose contexts have ended with the
// session's. Nothing is given back: the session's end does that.
func (in *incarnation) sessionLost() {
	if in.lost {
		return
	}
	in.lost = true
	in.dropQueued()
	for id, r := range in.runs {
		if r.handle == nil && r.phase != phaseEnding {
			in.forget(id)
			continue
		}
		in.node.markStopped(r)
	}
}

// finished tells whether the loop may end: nothing runs and nothing is under
// way, or the time that closing may take is over. Once the session is lost, only
// its hard deadline ends the waiting for handlers.
func (in *incarnation) finished() bool {
	if !in.closing && !in.lost {
		return false
	}
	if !in.lost && !time.Now().Before(in.closeBy) {
		return true
	}
	return len(in.runs) == 0 && in.out.settled(in.lost)
}
