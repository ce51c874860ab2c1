package windlass

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/schedule"
)

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
	in.wakeParked(now)
	in.timeoutStep(now)
	in.auditStep(now)
	in.loadStep(now)
	in.lateStep(now)
	in.probationStep(now)
	in.forgetDeaths(now)
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
		earlier(in.info.Probation)
		earlier(in.deaths.forgetAt)
		earlier(in.board.Lag.Next())
		earlier(in.auditAt)
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
	return in.closing || in.lost || in.info.Frozen || in.info.Cordoned || in.info.Draining || !in.info.Probation.IsZero()
}

// mayClaim reports whether claims can be made now: both copies are there, the copy of
// the nodes without a gap; the commands to tasks are known; and enough of the session
// is left.
func (in *incarnation) mayClaim() bool {
	return !in.frozenOrLeaving() && in.tasks.Revision() > 0 && in.fleet.Complete(in.nodes.Revision(), time.Now()) && in.commandsKnown && in.session.MayStart()
}

// beginClosing stops everything, in order, because the node's context is done.
func (in *incarnation) beginClosing() {
	if in.lost {
		return
	}
	in.closing = true
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

// finished reports whether the loop may end: nothing runs and no call is in flight, or
// the time for closing is over. Once the session is lost, only its hard deadline ends
// the wait for handlers.
func (in *incarnation) finished() bool {
	if !in.closing && !in.lost {
		return false
	}
	if !in.lost && !time.Now().Before(in.closeBy) {
		return true
	}
	return len(in.runs) == 0 && in.out.settled(in.lost)
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
	in.deathsRecorded(now)
	in.recordDeaths(now)
	in.board.Shown(len(changed) > 0, now)
	if len(changed) > 0 {
		in.giving.TasksChanged(now)
	}
}

// checkRevision ends the incarnation if the broker's revision went back. The broker was
// then restored from an older copy, which may know this session but not the claims that
// were made with it since.
func (in *incarnation) checkRevision(before, now broker.Revision) {
	if now < before {
		in.session.End(fmt.Errorf("%w: the broker went back from revision %d to %d", ErrLost, before, now))
	}
}

// taskChanged updates everything that depends on one task.
func (in *incarnation) taskChanged(id string, now time.Time) {
	t := in.tasks.Get(id)
	in.giving.Shown(id, t, now)
	in.board.Changed(id, now)
	in.checkClaim(id)
}

// endedClaims are claims that this node has ended, by task, until its copy shows the
// end.
type endedClaims map[string]endedClaim

type endedClaim struct {
	token broker.Revision
	// audited is set by the first audit that finds it.
	audited bool
}

// after reports whether this node has held a task and ended the claim, all after a
// revision.
func (ts endedClaims) after(id string, revision broker.Revision) bool { return ts[id].token > revision }

// checkClaim compares a task's owner key with what this node holds. The mirror is
// informative about a claim only once it has reached the claim's token.
func (in *incarnation) checkClaim(id string) {
	t := in.tasks.Remains(id)
	held := t != nil && t.Session == in.session.ID()
	r := in.runs[id]
	switch {
	case r != nil && in.tasks.Revision() >= r.claim.token() && !(held && t.Token == r.claim.token()):
		in.lose(r, fmt.Errorf("%w: the owner key of task %q is gone", ErrLost, id))
	case r != nil && in.isDeleted(r):
		in.stopRun(id, ErrDeleted)
	case r != nil && in.isOutdated(r):
		in.update(r)
	case in.isOrphan(id):
		if !in.out.adopts.Has(id) {
			in.out.adopts.Put(id, coordinator.Wanted{ID: id}, time.Now())
		}
	case !held && !in.endedByUs.after(id, in.tasks.Revision()):
		delete(in.endedByUs, id)
	}
}

// isOrphan reports whether the mirror shows a claim of this node that has no run here.
func (in *incarnation) isOrphan(id string) bool {
	t := in.tasks.Remains(id)
	return t != nil && t.Session == in.session.ID() && !in.busyWith(id) && in.endedByUs[id].token != t.Token
}

// auditStep checks every claim from time to time, for what no single update would show:
// an outcome that stayed unknown, or a request that was applied long after it was given
// up.
func (in *incarnation) auditStep(now time.Time) {
	if now.Before(in.auditAt) || in.tasks.Revision() == 0 || in.lost {
		return
	}
	in.auditAt = now.Add(in.session.Timing().TTL / 2)
	if in.agrees() {
		return
	}
	mine := in.session.ID()
	for t := range in.tasks.All() {
		switch {
		case t.Owned() && t.Session != mine, in.busyWith(t.ID):
		case !t.Owned():
			in.board.Add(t, now)
		default:
			in.checkClaim(t.ID)
		}
	}
	for t := range in.tasks.Remnants() {
		in.checkClaim(t.ID)
	}
	for id, t := range in.endedByUs {
		seen := in.tasks.Revision() >= t.token
		if seen && t.audited {
			delete(in.endedByUs, id) // it was to be gone by the last audit: whoever said so was wrong
		} else {
			in.endedByUs[id] = endedClaim{token: t.token, audited: true}
		}
		if seen {
			in.checkClaim(id)
		}
	}
	for id := range in.runs {
		in.checkClaim(id)
	}
}

// agrees reports whether the mirror shows exactly the claims that are held here, and no
// task without an owner that is not a candidate. A node that holds a hundred thousand
// tasks need not look at each for that.
func (in *incarnation) agrees() bool {
	sums := in.tasks.Sums()
	return sums.Claims == in.claims && sums.Remnants == 0 && len(in.endedByUs) == 0 &&
		sums.Unowned == in.board.Len() && in.board.InFlight() == 0 && in.out.adopts.Calls() == 0
}

// applyNodes applies an update of the nodes' mirror.
func (in *incarnation) applyNodes(u mirror.Update) {
	now := time.Now()
	var changed []string
	switch {
	case u.Err != nil:
		in.events.BrokerTrouble(u.Err)
		return
	case u.Snapshot != nil:
		in.checkRevision(in.nodes.Revision(), u.Snapshot.Revision)
		changed = in.nodes.Reset(u.Snapshot)
		if in.fleet.Listed(now) {
			in.out.publishInfo()
		}
	default:
		changed = in.nodes.Apply(u.Batch)
	}
	if len(changed) > 0 {
		in.nodesGone(changed, now)
		in.peersChanged(changed, now)
	}
	in.returnsChanged(now)
	in.deathsRecorded(now)
	in.recordDeaths(now)
	in.checkRegistration()
	in.checkCordon()
	in.checkPauses()
	in.runCommands()
}

// checkRegistration ends the incarnation if its registration is gone: another node
// could have the name by now.
func (in *incarnation) checkRegistration() {
	if in.closing || in.lost || in.nodes.Revision() < in.infoCreated {
		return
	}
	if n := in.nodes.Get(in.config.Name); n == nil || n.Session != in.session.ID() {
		in.session.End(fmt.Errorf("%w: the registration of node %q is gone", ErrLost, in.config.Name))
	}
}

// peersChanged reads the other nodes again, and balances if that may be needed.
func (in *incarnation) peersChanged(changed []string, now time.Time) {
	isChanged := map[string]bool{}
	for _, name := range changed {
		isChanged[name] = true
	}
	var peers []schedule.Peer
	for _, n := range in.nodes.Registered() {
		if n.Name == in.config.Name {
			continue
		}
		if p := in.fleet.Peer(n.Name); p != nil && !isChanged[n.Name] {
			peers = append(peers, *p)
		} else {
			peers = append(peers, in.readPeer(n.Name, n.Info))
		}
	}
	change := in.fleet.Update(peers, func(name string) (schedule.Peer, bool) {
		gone, ok := in.nodes.Gone(name)
		if !ok {
			return schedule.Peer{}, false
		}
		return in.readPeer(name, gone.Info), true
	}, now)
	for _, name := range change.Back {
		in.board.Back(name)
	}
	if change.Braked > 0 {
		in.events.Braked(change.Braked, in.config.FailoverRate)
	}
	if change.ShortLived {
		in.board.LifetimesChanged(now)
	}
	if change.Same {
		return
	}
	in.board.FleetChanged()
	in.giving.FleetChanged(change.Joined, now)
}

// readPeer parses a registration. An unreadable one is a node that exists and takes
// nothing.
func (in *incarnation) readPeer(name string, value []byte) schedule.Peer {
	var info NodeInfo
	if err := json.Unmarshal(value, &info); err != nil {
		in.events.Corrupt(in.node.space.NodeInfo(name), err)
		info = NodeInfo{Frozen: true}
	}
	info.Name = name
	p := schedule.Peer{
		Node: info.placed(), Incarnation: info.Incarnation,
		Frozen: info.Frozen || info.Cordoned || !info.Probation.IsZero(), Cordoned: info.Cordoned,
		Draining: info.Draining, Returning: info.Returning, Overloaded: info.Overloaded,
		ShortLived: validTypes(info.ShortLived),
	}
	p.ReturnWithin = info.returnWithin()
	return p
}

// validTypes returns the first of some types that another node reports, at most as many
// as a node may report. Invalid type names are left out.
func validTypes(named []string) (types []string) {
	for _, name := range named {
		if len(types) == schedule.ShortLivedMax {
			break
		}
		if name == "" || checkType(name) == nil { // tasks without a type have the empty one
			types = append(types, name)
		}
	}
	return types
}
