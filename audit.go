package windlass

import (
	"errors"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/life"
)

// auditStep checks every claim from time to time, for what no single update would show:
// an outcome that stayed unknown, or a request that was applied long after it was given
// up.
func (in *incarnation) auditStep(now time.Time) {
	if now.Before(in.auditAt) || in.tasks.Revision() == 0 {
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

// checkRevision ends the incarnation if the broker's revision went back. The broker was
// then restored from an older copy, which may know this session but not the claims that
// were made with it since.
func (in *incarnation) checkRevision(before, now broker.Revision) {
	if now < before {
		in.session.End(fmt.Errorf("%w: the broker went back from revision %d to %d", ErrLost, before, now))
	}
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
	case r != nil && in.tasks.Revision() >= r.claim.held.Token && !(held && t.Token == r.claim.held.Token):
		in.lose(r, fmt.Errorf("%w: the owner key of task %q is gone", ErrLost, id))
	case r != nil && in.isDeleted(r):
		in.stopRun(id, ErrDeleted)
	case r != nil && in.isOutdated(r):
		in.update(r)
	case in.isOrphan(id):
		if !in.out.adopts.Has(id) {
			in.out.adopts.Put(id, coordinator.Wanted{Ref: coordinator.Ref{ID: id}}, time.Now())
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

// markRecorded marks the runs whose claims are about to be recorded. It removes from
// the audit queue the records of claims that are over, or about to be.
func (in *incarnation) markRecorded(records []coordinator.AuditRecord) {
	for i := range records {
		n := &records[i]
		if r := in.runs[n.ID]; r != nil && r.claim.held.Token == n.Token && r.phase != life.Ending {
			r.recorded = true
		} else {
			n.Claimed = nil
		}
	}
}

// audited handles the results of writing audit records. Temporary failures are queued again.
func (in *incarnation) audited(records []coordinator.AuditRecord, errs []error) {
	now := time.Now()
	for i, err := range errs {
		switch {
		case err == nil:
		case !broker.Temporary(err) && !errors.Is(err, coordinator.ErrHistoryContended):
			in.events.Corrupt(in.node.space.History(records[i].ID), fmt.Errorf("write the history: %w", err))
		case in.stage != stageClosing:
			in.out.audit.Again(records[i], now)
		}
	}
}
