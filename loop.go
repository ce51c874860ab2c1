package windlass

import (
	"context"
	"time"

	"github.com/windlass-go/windlass/internal/life"
	"github.com/windlass-go/windlass/internal/mirror"
)

// stage is how far an incarnation has come.
type stage uint8

const (
	// stageWorking: it claims tasks and runs them.
	stageWorking stage = iota
	// stageClosing: its context is done, and it gives everything back.
	stageClosing
	// stageLost: its session has ended, and all claims with it.
	stageLost
)

// chores are what a working node does by itself, in this order, and when that is due again: the zero time means not before
// something else happens. Each is asked in every step, and does nothing before it is due.
var chores = [...]struct {
	do  func(in *incarnation, now time.Time)
	due func(in *incarnation) time.Time
}{
	{(*incarnation).wakeParked, func(in *incarnation) time.Time { return in.parked.next() }},
	{(*incarnation).timeoutStep, func(in *incarnation) time.Time { return in.timeouts.Next() }},
	{(*incarnation).auditStep, func(in *incarnation) time.Time { return in.auditAt }},
	{(*incarnation).loadStep, func(in *incarnation) time.Time { return in.loadAt }},
	{(*incarnation).lateStep, func(in *incarnation) time.Time { return in.board.Lag.Next() }},
	{(*incarnation).probationStep, func(in *incarnation) time.Time { return in.info.Probation }},
	{(*incarnation).forgetGone, func(in *incarnation) time.Time { return in.deaths.ForgetAt() }},
}

// loop is the node's single loop. It ends when everything was given back after ctx was
// done, when the session was lost and every handler has returned, or when the time for
// either is over. ending limits the calls that end claims.
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

// arrivedMax limits how many updates are applied before due work is done.
const arrivedMax = 256

// takeArrived applies the other updates that have arrived by now, so that the node
// reacts to all of them once. With many nodes most updates are about other nodes. A
// node that reacted to each separately would lag ever more.
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

// step does what is due and returns how long until something else is.
func (in *incarnation) step(ending context.Context) time.Duration {
	now := time.Now()
	in.drainStep(now)
	in.giveAway(now)
	for i := range chores {
		if in.stage == stageWorking {
			chores[i].do(in, now)
		}
	}
	if in.mayClaim() {
		in.claimPass(now)
		in.giveUpPulls(now)
	}
	// What to give away depends on the current open tasks and claims in flight.
	in.giving.Pass(now)
	in.giveAway(now)
	in.send(ending, now)
	return in.nextWake(now)
}

// nextWake returns how long until something is due by itself. Work that is due but
// waits for something else, a call in flight or the end of the handlers, must not
// count: the loop would spin.
func (in *incarnation) nextWake(now time.Time) time.Duration {
	next := now.Add(time.Minute)
	earlier := func(t time.Time) {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	in.wakeToSend(now, earlier)
	switch in.stage {
	case stageLost: // the session tells when its hard deadline passes
	case stageClosing:
		earlier(in.closeBy)
	case stageWorking:
		in.wakeForTasks(now, earlier)
		earlier(in.giving.Wake(in.out.toldOthers()))
		for i := range chores {
			earlier(chores[i].due(in))
		}
	}
	return max(next.Sub(now), 0)
}

// wakeForTasks reports the times at which something could be claimed.
func (in *incarnation) wakeForTasks(now time.Time, earlier func(time.Time)) {
	switch {
	case in.mayClaim():
		earlier(in.board.Wake(now))
		earlier(in.pullAt)
	case !in.frozenOrLeaving() && in.board.Waiting():
		earlier(now.Add(in.session.Timing().Renew)) // the session is late in its life
	}
}

// frozenOrLeaving reports whether the node claims nothing by choice.
func (in *incarnation) frozenOrLeaving() bool {
	return in.stage != stageWorking || in.info.Frozen || in.info.Cordoned || in.info.Draining || !in.info.Probation.IsZero()
}

// mayClaim reports whether claims can be made now: both copies are there, the copy of
// the nodes without a gap; the commands to tasks are known; and enough of the session
// is left.
func (in *incarnation) mayClaim() bool {
	return !in.frozenOrLeaving() && in.tasks.Revision() > 0 && in.fleet.Complete(in.nodes.Revision(), time.Now()) && in.commandsKnown && in.session.MayStart()
}

// beginClosing stops everything, in order, because the node's context is done.
func (in *incarnation) beginClosing() {
	if in.stage == stageLost {
		return
	}
	in.stage = stageClosing
	in.deactivate()
	in.closeBy = time.Now().Add(in.shutdownGrace())
	in.info.Returning = in.config.ReturnWithin > 0 && !in.info.Draining && !in.info.Cordoned
	in.info.Draining = !in.info.Returning
	in.out.publishInfo()
	in.out.info.Pause(time.Time{})
	in.dropQueued()
	for id := range in.runs {
		in.stopRun(id, ErrDraining)
	}
}

// sessionLost waits for the handlers, whose contexts have ended with the session's.
// Nothing is given back: the end of the session does that.
func (in *incarnation) sessionLost() {
	if in.stage == stageLost {
		return
	}
	in.stage = stageLost
	in.dropQueued()
	for id, r := range in.runs {
		if r.handle == nil && r.phase != life.Ending {
			in.forget(id)
			continue
		}
		in.node.markStopped(r)
	}
}

// finished reports whether the loop may end: nothing runs and no call is in flight, or
// the time for closing is over. Once the session is lost, only its hard deadline ends
// the wait for handlers.
func (in *incarnation) finished() bool {
	if in.stage == stageWorking {
		return false
	}
	if in.stage != stageLost && !time.Now().Before(in.closeBy) {
		return true
	}
	return len(in.runs) == 0 && in.out.settled(in.stage == stageLost)
}

// applyTasks applies an update of the tasks' mirror.
func (in *incarnation) applyTasks(u mirror.Update) {
	var changed []string
	switch {
	case u.Err != nil:
		in.events.BrokerTrouble(u.Err)
		return
	case u.Snapshot != nil:
		in.checkRevision(in.tasks.Revision(), u.Snapshot.Revision)
		changed = in.tasks.Reset(u.Snapshot)
		in.board.Relisted()
		// A claim that came and went while nothing was seen is no difference between
		// two snapshots, and may have been this node's.
		in.auditAt = time.Time{}
	default:
		changed = in.tasks.Apply(u.Batch)
	}
	now := time.Now()
	for _, id := range changed {
		in.taskChanged(id, now)
	}
	in.countFleet()
	in.deaths.Shown(in.tasks, now)
	in.readDeaths(now)
	in.board.Shown(len(changed) > 0, now)
	if len(changed) > 0 {
		in.giving.TasksChanged(now)
	}
}

// taskChanged updates everything that depends on one task.
func (in *incarnation) taskChanged(id string, now time.Time) {
	t := in.tasks.Get(id)
	in.giving.Shown(id, t, now)
	in.board.Changed(id, now)
	in.checkClaim(id)
}
