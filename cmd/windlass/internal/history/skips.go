package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/statemachine"
)

// mark is what a task that failed or was killed leaves for those that wait for it:
// that they go on waiting or, if it skips them, are killed.
type mark struct{ there, skips bool }

func readMark(e broker.Event) mark {
	var value struct {
		Skip bool `json:"skip"`
	}
	if e.Deleted || json.Unmarshal(e.KV.Value, &value) != nil {
		return mark{there: !e.Deleted}
	}
	return mark{there: true, skips: value.Skip}
}

// checkMark checks that a task that ends leaves what those that wait for it are to
// find (Z11).
func (l *Log) checkMark(id string, state statemachine.State, group []broker.Event) {
	var left, want mark
	for _, e := range group {
		if e.KV.Key == l.space.Failed(id) {
			left = readMark(e)
		}
	}
	if state == statemachine.Failed || state == statemachine.Killed {
		want = l.task(id).wants
	}
	if left != want {
		l.complain("Z11: %q is %s and leaves the mark %+v, want %+v", id, state, left, want)
	}
}

// forgetLate bounds how long before a failure is forgotten the store was read for that.
// Who begins to wait for it in between may come too late.
const forgetLate = time.Minute

// checkForgotten checks the removal of a mark: not without the task running again, nor
// while another waits for it (Z11).
func (l *Log) checkForgotten(id string, group []broker.Event) {
	again := slices.ContainsFunc(group, func(e broker.Event) bool { return !e.Deleted && e.KV.Key == l.space.Task(id) })
	if again || l.deleting[id] || l.unblocking[id] {
		return
	}
	for other, t := range l.tasks {
		if t.exists && time.Since(t.since) > forgetLate && slices.Contains(t.blockers(other), id) {
			l.complain("Z11: that %q failed is forgotten while %q waits for it", id, other)
		}
	}
}

// checkBlockers checks a grant against what the task waits for (I8, Z06, Z11). If
// one of that has failed and skips those that wait, the claim may be there to kill
// the task, and for nothing else.
func (l *Log) checkBlockers(id string, token broker.Revision) {
	var wrong []string
	mayKill := false
	for _, b := range l.task(id).blockers(id) {
		blocker := l.tasks[b]
		switch {
		case blocker == nil:
			continue
		case blocker.exists:
			wrong = append(wrong, fmt.Sprintf("I8: %q is granted while %q exists", id, b))
		case blocker.failed.there:
			wrong = append(wrong, fmt.Sprintf("Z11: %q is granted while %q, which failed, keeps it waiting", id, b))
		default:
			continue
		}
		mayKill = mayKill || blocker.failed.skips
	}
	if mayKill {
		l.skipping[claim{id, token}] = true
		return
	}
	for _, text := range wrong {
		l.complain("%s", text)
	}
}

// skippedPrefix begins the last error of a task that was killed because of another.
const skippedPrefix = "skipped:"

// checkSkipped checks what a claim writes that is there to kill its task, and that
// no other kills it for this reason (Z11). It tells whether that is why it is
// killed.
func (l *Log) checkSkipped(id string, r statemachine.Record) (skipped bool) {
	n := len(r.Errors)
	skipped = r.State == statemachine.Killed && n > 0 && strings.HasPrefix(r.Errors[n-1].Error, skippedPrefix)
	if l.byHand[l.space.Owner(id)] {
		return skipped // nobody has looked at its claims
	}
	if may := l.Skipping(id, broker.Revision(r.Token)); may && !skipped {
		l.complain("Z11: %q was claimed with %d while another that it waits for had failed and skips it, and becomes %s", id, r.Token, r.State)
	} else if skipped && !may {
		l.complain("Z11: %q is skipped by the claim %d, and nothing that it waited for then says so", id, r.Token)
	}
	return skipped
}

// Skipping tells of a claim whether nothing allowed it but to kill the task: no
// handler may run under it.
func (l *Log) Skipping(id string, token broker.Revision) bool { return l.skipping[claim{id, token}] }

// Blocker is a task that another one waits for.
type Blocker struct {
	// ID of it.
	ID string
	// Exists tells that it is pending or worked on, Failed that it has failed or
	// was killed and keeps others waiting, Skips that they are to be killed.
	Exists, Failed, Skips bool
}

// Blockers are what a task waits for now.
func (l *Log) Blockers(id string) (all []Blocker) {
	t := l.tasks[id]
	if t == nil || !t.exists {
		return nil
	}
	for _, b := range t.blockers(id) {
		if other := l.tasks[b]; other != nil && (other.exists || other.failed.there) {
			all = append(all, Blocker{b, other.exists, other.failed.there, other.failed.skips})
		}
	}
	return all
}
