package history

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/keys"
	"github.com/windlass-go/windlass/statemachine"
)

// checkState checks the writing or the removal of a state (I2, I6, I7).
func (l *Log) checkState(e broker.Event, id string) {
	t := l.task(id)
	if e.Deleted {
		return // the task was submitted again
	}
	r, err := statemachine.Parse(e.KV.Value)
	if err != nil {
		l.complain("I7: the state of %q: %v", id, err)
		return
	}
	for _, e := range r.Errors {
		if e.Error == context.Canceled.Error() {
			l.complain("M55: being told to stop counts as an error of %q", id)
		}
	}
	if token := broker.Revision(r.Token); token != t.owner || t.owner == 0 {
		l.complain("I2: the state of %q is written with token %d while %d is live", id, token, t.owner)
	}
	if t.exists && t.created > t.owner && t.owner != 0 {
		l.complain("I2: the claim %d of a deleted task writes a state of %q, which was submitted at %d", t.owner, id, t.created)
	}
	if at := r.ChangedAt; at != nil && t.changedBy == r.Token && at.Before(t.changedAt) {
		l.complain("I2: the state of %q, of token %d, goes back to one of %v after one of %v", id, r.Token, at, t.changedAt)
	}
	if l.Carrying(id, broker.Revision(r.Token)) && r.State != statemachine.Killed && r.State != statemachine.Paused {
		l.complain("O06: %q becomes %s by the claim %d of a client", id, r.State, r.Token)
	}
	skipped := l.checkSkipped(id, r)
	l.checkTypePause(id, r)
	if m := onlyByCommand[r.State]; m != "" && r.State != t.state && !t.told[m] && !skipped && !r.TypePaused {
		l.complain("M54: %q becomes %s, and nobody told it to", id, r.State)
	}
	switch {
	case t.unreadable:
	case t.state.Terminal():
		l.complain("I6: %q had ended as %s and becomes %s", id, t.state, r.State)
	case !reachable(t.state, r.State):
		l.complain("I7: %q goes from %q to %q", id, t.state, r.State)
	}
}

// onlyByCommand has the states that in a simulation only a command may lead to: no
// handler asks for them by itself.
var onlyByCommand = map[statemachine.State]statemachine.Message{
	statemachine.Paused: statemachine.Pause, statemachine.Killed: statemachine.Kill,
}

// checkHandled checks the deletion of a command (M56).
func (l *Log) checkHandled(id string, group []broker.Event) {
	if t := l.task(id); t.owner == 0 && !l.deletes(group, l.space.Task(id)) && !l.Unannounced {
		l.complain("M56: the command to %q is deleted while nobody holds the task", id)
	}
}

// reachable reports whether one stored state may follow another. A fault and the
// decision about it are stored as one state.
func reachable(from, to statemachine.State) bool {
	after := func(s statemachine.State) (next []statemachine.State) {
		for _, m := range statemachine.Messages {
			if n, err := statemachine.Next(s, m); err == nil {
				next = append(next, n)
			}
		}
		return next
	}
	direct := after(from)
	return slices.Contains(direct, to) ||
		slices.Contains(direct, statemachine.Fault) && slices.Contains(after(statemachine.Fault), to)
}

// checkTypePause checks that a task which is paused because of its type has that reason
// (O09).
func (l *Log) checkTypePause(id string, r statemachine.Record) {
	since, ever := l.resumed[r.Type]
	switch {
	case !r.TypePaused:
	case r.State != statemachine.Paused || !ever && !l.paused[r.Type]:
		l.complain("O09: %q becomes %s because its type %q is paused, which it never was", id, r.State, r.Type)
	case !l.paused[r.Type] && time.Since(since) > cordonHeardMax:
		l.complain("O09: %q becomes paused because its type %q is, which was resumed at %v", id, r.Type, since)
	}
}

// cordonHeardMax is how long a node may take to learn of its cordon, claims in flight
// included. A node whose watches end and whose lists are refused can be without news for
// as long as such faults last, and claims meanwhile.
const cordonHeardMax = 5 * time.Minute

// checkGrant checks the creation of an owner key (I1, I4, I8, O01).
func (l *Log) checkGrant(e broker.Event, id string) {
	t := l.task(id)
	switch {
	case e.KV.Created != e.KV.Modified:
		l.complain("I1: the owner of %q, granted at %d, is written again", id, e.KV.Created)
		return
	case t.owner != 0:
		l.complain("I1: %q is granted while %d is live", id, t.owner)
	case e.KV.Created <= t.last:
		l.complain("I4: %q is granted with token %d after %d", id, e.KV.Created, t.last)
	}
	if t.state.Terminal() {
		l.complain("I6: %q has ended as %s and is granted", id, t.state)
	}
	if !t.exists {
		l.complain("I6: %q does not exist and is granted", id)
	}
	var owner struct{ Node string }
	_ = json.Unmarshal(e.KV.Value, &owner) // no node has the empty name
	if since, there := l.cordons[owner.Node]; there && time.Since(since) > cordonHeardMax {
		l.complain("O01: %q is granted to node %s, which is cordoned since %v", id, owner.Node, since)
	}
	if strings.HasPrefix(owner.Node, clientPrefix) {
		l.carrying[claim{id, e.KV.Created}] = true
		if t.slot != statemachine.Kill && t.slot != statemachine.Pause {
			l.complain("O06: %q is granted to a client, and the command to it is %q", id, t.slot)
		}
		return // it may wait for others
	}
	l.checkBlockers(id, e.KV.Created)
}

// clientPrefix begins the names of clients that carry out a command.
const clientPrefix = "client-"

// checkRelease checks the deletion of an owner key (I12).
func (l *Log) checkRelease(id string, withSession bool) {
	if t := l.task(id); !withSession && t.owner != 0 && !l.Unannounced && !l.endings[claim{id, t.owner}] {
		l.complain("I12: the owner key of %q, granted at %d, is deleted, which nobody asked for", id, t.owner)
	}
}

// checkGone checks the removal of a task (I5).
func (l *Log) checkGone(id string, group []broker.Event) {
	if l.deleting[id] || l.Unannounced {
		return
	}
	for _, e := range group {
		if p := l.space.Parse(e.KV.Key); p.Kind == keys.State && p.Name == id && !e.Deleted {
			if r, err := statemachine.Parse(e.KV.Value); err == nil && r.State.Terminal() {
				l.checkMark(id, r.State, group)
				return
			}
		}
	}
	if t := l.task(id); t.state.Terminal() {
		return // the remains of a task that had ended
	}
	l.complain("I5: %q disappears without having ended, and nobody deleted it", id)
}

func (l *Log) deletes(group []broker.Event, key string) bool {
	return slices.ContainsFunc(group, func(e broker.Event) bool { return e.Deleted && e.KV.Key == key })
}

// checkRegistration checks the writing of a node's registration (M04).
func (l *Log) checkRegistration(e broker.Event) {
	if before := l.sessionOf[e.KV.Key]; !e.Deleted && before != 0 && before != e.KV.Session {
		l.complain("M04: %s is taken over by session %d from %d, which lives", e.KV.Key, e.KV.Session, before)
	}
}
