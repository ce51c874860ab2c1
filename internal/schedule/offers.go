package schedule

import (
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/mirror"
)

// offers schedules when to give back tasks that were claimed above this node's share
// because no other node took them.
type offers struct {
	// forced has those tasks, with their types.
	forced map[string]string
	byType map[string]offer
}

// offer schedules when a forced task of a type is given back, to see whether other
// nodes can take it by now. One task stands for all of its type. If it comes back, the
// pause until the next attempt doubles, and beyond offerMax there is none. So tasks
// that only this node can run are not interrupted forever.
type offer struct {
	at    time.Time
	pause time.Duration
	// probe is the task that was given back, empty for none, and to the node that is to
	// take it, empty for any.
	probe, to string
	// token is the token of the claim on it that was given up.
	token broker.Revision
	// refusers has the nodes that should have claimed tasks of the type and did not:
	// nothing else is moved to them.
	refusers map[string]bool
}

// Bounds of the pause before a forced task is offered.
const (
	offerMin = 30 * time.Second
	offerMax = time.Hour
)

// again returns the next attempt after one that failed.
func (o offer) again(now time.Time) offer {
	return offer{at: now.Add(2 * o.pause), pause: 2 * o.pause, refusers: o.refusers}
}

// clear forgets all: a new node may take what no node took.
func (o *offers) clear() { *o = offers{forced: map[string]string{}, byType: map[string]offer{}} }

// force records that a task is claimed although a node that refused it should have
// claimed it.
func (o *offers) force(id, taskType, refuser string, now time.Time) {
	o.forced[id] = taskType
	next, ok := o.byType[taskType]
	switch {
	case !ok:
		next = offer{at: now.Add(offerMin), pause: offerMin, refusers: map[string]bool{}}
	case next.probe == id:
		next = next.again(now)
	}
	next.refusers[refuser] = true
	o.byType[taskType] = next
}

// holdsBack reports whether a task was forced and is not to be given back yet.
func (o *offers) holdsBack(h *Held, now time.Time) bool {
	_, forced := o.forced[h.ID]
	return forced && !o.due(h.Class.Type, now)
}

// due reports whether a forced task of a type may be given back for balance.
func (o *offers) due(taskType string, now time.Time) bool {
	next := o.byType[taskType]
	return next.probe == "" && next.pause <= offerMax && !next.at.After(now)
}

// refuses reports whether a node is to be left out of moves, because it has not claimed
// what it should have and it is not time to try again.
func (o *offers) refuses(node string, now time.Time) bool {
	for taskType, next := range o.byType {
		if next.refusers[node] && !o.due(taskType, now) {
			return true
		}
	}
	return false
}

// take reports whether a task may go to a node, and records that it does.
func (o *offers) take(h *Held, to string) bool {
	next := o.byType[h.Class.Type]
	if _, forced := o.forced[h.ID]; !forced && !next.refusers[to] {
		return true
	}
	if next.probe != "" {
		return false // one stands for all
	}
	next.probe, next.to, next.token = h.ID, to, h.Token
	o.byType[h.Class.Type] = next
	return true
}

// shown handles the state of a task that was offered: if another node has it, others of
// its type can go as well. self is the session of this node.
func (o *offers) shown(id string, t *mirror.Task, self broker.SessionID, now time.Time) {
	if t == nil {
		delete(o.forced, id)
	}
	for taskType, next := range o.byType {
		switch {
		case next.probe != id:
		case t == nil: // it is gone, and nobody knows who could have taken it
			next.probe, next.at = "", now.Add(next.pause)
			o.byType[taskType] = next
		case t.Session == self && t.Token == next.token: // it is still here
		case t.Owned() && (t.Session == self || next.to != "" && t.Owner != next.to):
			// Not the one that should have had it: that one still takes none.
			o.byType[taskType] = next.again(now)
		case t.Owned():
			delete(o.byType, taskType)
			for forced, ofType := range o.forced {
				if ofType == taskType {
					delete(o.forced, forced)
				}
			}
		}
	}
}
