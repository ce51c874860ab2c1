package windlass

import (
	"bytes"
	"context"
	"reflect"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/life"
)

// isOutdated reports whether the task of a held claim was changed since it was read.
func (in *incarnation) isOutdated(r *run) bool {
	t := in.tasks.Get(r.claim.held.ID)
	return t != nil && t.Modified() > r.claim.read
}

// update handles a change of a held task: its handler is told, or the task runs again as
// it is now. If its settings are the same, what has changed is read first: it may be the
// tags alone, which concern no handler. Where a handler is on its way out for another
// reason, resume does so once that is stored.
func (in *incarnation) update(r *run) {
	switch reaction := r.phase.On(life.Change); {
	case reaction == life.Tell && (r.claim.listensToUpdates() || r.hasKind(in.kinds.OfTask(in.tasks.Get(r.claim.held.ID)))):
		in.out.changes.Put(r.claim.held.ID, struct{}{}, time.Time{})
	case reaction != life.Nothing:
		in.stopRun(r.claim.held.ID, ErrUpdated)
	}
}

// hasKind reports whether a task's settings are still those of the run.
func (r *run) hasKind(k *taskKind) bool {
	return k == r.claim.kind || k.Err == nil && reflect.DeepEqual(k.Spec, r.claim.kind.Spec)
}

// readAgain reads changed tasks and passes their new properties to their handlers.
func (in *incarnation) readAgain(ctx context.Context, ids []string, _ []struct{}) (then func()) {
	txns := make([]broker.Txn, len(ids))
	for i, id := range ids {
		txns[i].Then = []broker.Op{broker.Read(in.node.space.Task(id)), broker.Read(in.node.space.Props(id))}
	}
	results := in.config.Broker.Commit(ctx, txns...)
	return func() {
		in.troubleIf(results[0].Err, "read a changed task") // one outage is one for all
		for i, result := range results {
			r := in.runs[ids[i]]
			switch {
			case r == nil || r.phase != life.Running || !in.isOutdated(r):
			case result.Err != nil:
				in.out.changes.Put(ids[i], struct{}{}, time.Now().Add(retryEnd))
			case result.Reads[0] != nil: // or it is deleted, as the copy will show
				in.changed(r, result.Reads[0], result.Reads[1])
			}
		}
	}
}

// changed passes new properties to a handler. If it does not listen, if it cannot run
// what the application makes of them, or if more has changed than they and the tags, it is
// stopped.
func (in *incarnation) changed(r *run, spec, props *broker.KV) {
	var value []byte
	if props != nil {
		value = props.Value
	}
	same, from := r.hasKind(in.kinds.Of(spec.Value)), originOf(spec.Value)
	switch {
	case same && bytes.Equal(value, r.claim.Props()):
		r.claim.retag(from)
		in.out.audit.Updated(&r.claim.held, r.claim.origin.by, "its tags were changed, and its handler runs on", time.Now())
	case same && in.tellUpdate(r, value, from):
		in.out.audit.Updated(&r.claim.held, r.claim.origin.by, "its handler received the new properties", time.Now())
	default:
		in.stopRun(r.claim.held.ID, ErrUpdated)
		return
	}
	r.claim.read = spec.Modified
}

// tellUpdate passes new properties to a handler that listens. It returns false if that
// cannot be.
func (in *incarnation) tellUpdate(r *run, props []byte, from origin) bool {
	if !r.claim.listensToUpdates() {
		return false
	}
	task := in.makeTask(r.claim.held.ID, props)
	return task != nil && r.claim.update(task, props, from)
}
