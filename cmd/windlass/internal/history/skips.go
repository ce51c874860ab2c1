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

// mark is the failure mark of a task. The tasks that wait for it keep waiting or, if
// skips is set, are killed.
type mark struct{ there, skips bool }

func readMark(e broker.Event) mark {
	var value struct {
		Skip bool `json:"skip"`
	}
	_ = json.Unmarshal(e.KV.Value, &value) // an unreadable mark does not skip
	return mark{there: !e.Deleted, skips: value.Skip}
}

// checkMark checks that a task that ends leaves the right failure mark (Z11).
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

// forgetLate limits the time between the reading of the store and the deletion of a
// failure. A task that begins to wait for it in between may be too late.
const forgetLate = time.Minute

// checkForgotten checks that a mark is not deleted while another task waits for it,
// unless the task runs again or a client asked for it (Z11).
func (l *Log) checkForgotten(id string, group []broker.Event) {
	again := slices.ContainsFunc(group, func(e broker.Event) bool { return !e.Deleted && e.KV.Key == l.space.Task(id) })
	if again || l.deleting[id] || l.unblocking[id] {
		return
	}
	for other, t := range l.tasks {
		if blockers, _ := l.blockers(other); t.exists && time.Since(t.since) > forgetLate && slices.Contains(blockers, id) {
			l.complain("Z11: that %q failed is forgotten while %q waits for it", id, other)
		}
	}
}

// checkBlockers checks a grant against the tasks that the task waits for (I8, Z06,
// Z11), and notes those for which it has no condition. If one of them has failed and
// skips the tasks that wait, the claim is allowed only to kill the task.
func (l *Log) checkBlockers(id string, token broker.Revision) {
	var wrong []string
	mayKill := false
	late := map[string]broker.Revision{}
	blockers, named := l.blockers(id)
	for i, b := range blockers {
		blocker := l.tasks[b]
		if blocker == nil || !blocker.exists && !blocker.failed.there {
			continue
		}
		if mayKill = mayKill || blocker.failed.skips; i < min(named, l.Conditions) {
			wrong = append(wrong, blocker.keeps(id, b, "is granted"))
		} else {
			late[b] = blocker.created
		}
	}
	if mayKill {
		l.skipping[claim{id, token}] = true
		return
	}
	if len(late) > 0 {
		l.late[claim{id, token}] = late
	}
	for _, text := range wrong {
		l.complain("%s", text)
	}
}

// keeps says what a task does although another one, t, keeps it waiting.
func (t *task) keeps(id, blocker, does string) string {
	if t.exists {
		return fmt.Sprintf("I8: %q %s while %q exists", id, does, blocker)
	}
	return fmt.Sprintf("Z11: %q %s while %q, which failed, keeps it waiting", id, does, blocker)
}

// Begins checks the beginning of a handler under a claim against the tasks that were
// there at the grant and for which the claim had no condition (I8, Z06, Z11).
func (l *Log) Begins(id string, token broker.Revision) {
	for b, created := range l.late[claim{id, token}] {
		if blocker := l.tasks[b]; blocker.created == created && (blocker.exists || blocker.failed.there) {
			l.complain("%s", blocker.keeps(id, b, "runs"))
		}
	}
}

// skippedPrefix begins the last error of a task that was killed because of another.
const skippedPrefix = "skipped:"

// checkSkipped checks that a claim that may only kill its task does so, and that no
// other claim kills it for this reason (Z11). It reports whether that is the reason.
func (l *Log) checkSkipped(id string, r statemachine.Record) (skipped bool) {
	n := len(r.Errors)
	skipped = r.State == statemachine.Killed && n > 0 && strings.HasPrefix(r.Errors[n-1].Error, skippedPrefix)
	if l.byHand[l.space.Owner(id)] {
		return skipped // its claims were not checked
	}
	if may := l.Skipping(id, broker.Revision(r.Token)); may && !skipped {
		l.complain("Z11: %q was claimed with %d while another that it waits for had failed and skips it, and becomes %s", id, r.Token, r.State)
	} else if skipped && !may {
		l.complain("Z11: %q is skipped by the claim %d, and nothing that it waited for then says so", id, r.Token)
	}
	return skipped
}

// Skipping reports whether a claim is allowed only to kill the task: no handler may run
// under it.
func (l *Log) Skipping(id string, token broker.Revision) bool { return l.skipping[claim{id, token}] }

// Carrying reports whether a claim is a client's, which only carries out a command: no handler
// may run under it.
func (l *Log) Carrying(id string, token broker.Revision) bool { return l.carrying[claim{id, token}] }

// Blocker is a task that another one waits for.
type Blocker struct {
	// ID of it.
	ID string
	// Exists is true if it is pending or runs, Failed if it has failed or was killed
	// and blocks others, Skips if those are to be killed.
	Exists, Failed, Skips bool
}

// Blockers returns the tasks that a task waits for now.
func (l *Log) Blockers(id string) (all []Blocker) {
	t := l.tasks[id]
	if t == nil || !t.exists {
		return nil
	}
	blockers, _ := l.blockers(id)
	for _, b := range blockers {
		if other := l.tasks[b]; other != nil && (other.exists || other.failed.there) {
			all = append(all, Blocker{b, other.exists, other.failed.there, other.failed.skips})
		}
	}
	return all
}
