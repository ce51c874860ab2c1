package windlass

import (
	"context"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/outbox"
)

// outgoing has everything that a node has to write to the broker or to ask it: a lane
// for each sort.
type outgoing struct {
	claims outbox.Lane[string, coordinator.Wanted]
	// adopts ask about claims that the copy shows as this node's and that have no run.
	// Nothing else is begun with those meanwhile, so that an answer is never older than
	// what is already known.
	adopts outbox.Lane[string, coordinator.Wanted]
	// asks find out whether a command to a task still exists.
	asks outbox.Lane[*taskCommand, asking]
	// changes read tasks again that were changed while their handlers run.
	changes outbox.Lane[string, struct{}]
	endings outbox.Lane[string, coordinator.Ending]
	// discards delete commands to tasks that changed nothing.
	discards outbox.Lane[discard, coordinator.Ending]
	// checkpoints are keyed by the channels on which their outcomes are awaited.
	checkpoints outbox.Lane[chan<- coordinator.Ended, coordinator.Ending]
	audit       journal
	// hints note where tasks are going whose handlers take long to stop.
	hints outbox.Lane[string, broker.Txn]
	// commands delete commands to this node that were carried out.
	commands outbox.Lane[string, broker.Txn]
	// deaths records the deaths of other nodes.
	deaths outbox.Lane[string, broker.Txn]
	// refuted brings back tasks that were set aside wrongly.
	refuted outbox.Lane[string, deaths.Refuted]
	// info publishes the node's registration as it is when the call is sent. There is
	// one call at a time, on the condition that the last one has written published.
	// Otherwise an older one that is applied late would hide a newer one.
	info      outbox.Lane[struct{}, struct{}]
	published broker.Revision
}

// newOutgoing returns the empty lanes of a node, except for the audit records that are left of
// an earlier session.
func newOutgoing(node, incarnation string, left []coordinator.AuditRecord) *outgoing {
	o := &outgoing{audit: journal{node: node, incarnation: incarnation}}
	o.claims.BatchMax, o.claims.CallsMax = claimBatchMax, callsInFlightMax
	o.adopts.BatchMax, o.adopts.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.asks.BatchMax, o.asks.CallsMax = 1, outbox.Unbounded
	o.changes.BatchMax, o.changes.CallsMax = claimBatchMax, callsInFlightMax
	o.endings.BatchMax, o.endings.CallsMax = claimBatchMax, callsInFlightMax
	o.discards.BatchMax, o.discards.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.checkpoints.BatchMax, o.checkpoints.CallsMax = claimBatchMax, callsInFlightMax
	o.audit.BatchMax, o.audit.CallsMax = claimBatchMax, 1
	o.hints.BatchMax, o.hints.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.commands.BatchMax, o.commands.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.deaths.BatchMax, o.deaths.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.refuted.BatchMax, o.refuted.CallsMax = 1, 1
	o.info.BatchMax, o.info.CallsMax = 1, 1
	for _, n := range left {
		o.audit.Add(n)
	}
	return o
}

// lane has the common methods of all lanes.
type lane interface {
	Wake() time.Time
	Calls() int
}

// lanes returns all lanes except the audit queue, which have rules of their own.
func (o *outgoing) lanes() [12]lane {
	return [...]lane{&o.claims, &o.adopts, &o.asks, &o.changes, &o.endings, &o.discards, &o.checkpoints, &o.hints, &o.commands, &o.deaths, &o.refuted, &o.info}
}

// publishInfo queues the publication of the node's registration.
func (o *outgoing) publishInfo() { o.info.Put(struct{}{}, struct{}{}, time.Time{}) }

// settled reports whether the node may leave: no call is in flight, and no ending
// waits. While its session is not lost, the node also writes the audit records, and publishes
// that it is leaving.
func (o *outgoing) settled(lost bool) bool {
	calls := o.audit.Calls()
	for _, l := range o.lanes() {
		calls += l.Calls()
	}
	return calls+o.endings.Len() == 0 && (lost || o.audit.Len()+o.info.Len() == 0)
}

// send sends what is due: everything that is ready goes in the next call of its lane,
// and nothing waits for a batch to fill. A node that closes sends no more questions.
// Once the session is lost, only endings and checkpoints are sent, whose outcome
// somebody waits for.
func (in *incarnation) send(ctx context.Context, now time.Time) {
	out, b := in.out, in.config.Broker
	out.claims.CallsMax = callsInFlightMax - out.adopts.Calls() // these count as calls to claim
	out.claims.Sift(now, in.isFree)
	dispatch(in, &out.claims, now, func(_ []string, wanted []coordinator.Wanted) func() {
		results := in.coord.Claim(ctx, wanted)
		return func() { in.claimed(wanted, results, false) }
	})
	if !in.lost && !in.closing {
		out.adopts.Sift(now, func(id string, _ coordinator.Wanted) bool { return in.isOrphan(id) })
		dispatch(in, &out.adopts, now, func(ids []string, wanted []coordinator.Wanted) func() {
			results := in.coord.Adopt(ctx, ids)
			return func() { in.claimed(wanted, results, true) }
		})
		dispatch(in, &out.asks, now, func(commands []*taskCommand, asked []asking) func() { return in.ask(commands[0], asked[0]) })
		dispatch(in, &out.changes, now, func(ids []string, _ []struct{}) func() { return in.readAgain(ctx, ids) })
	}
	dispatch(in, &out.endings, now, func(_ []string, endings []coordinator.Ending) func() {
		results := in.coord.End(ctx, endings)
		return func() { in.ended(endings, results) }
	})
	if !in.lost {
		dispatch(in, &out.discards, now, func(handled []discard, endings []coordinator.Ending) func() {
			results := in.coord.End(ctx, endings)
			return func() { in.discarded(handled, endings, results) }
		})
	}
	dispatch(in, &out.checkpoints, now, func(outcomes []chan<- coordinator.Ended, endings []coordinator.Ending) func() {
		for i, ended := range in.coord.End(ctx, endings) {
			outcomes[i] <- ended
		}
		return func() {}
	})
	if in.lost {
		return
	}
	if c, ok := out.audit.Take(now, in.closing, in.isBusy()); ok {
		in.markRecorded(c.Values)
		begin(in, &out.audit.Lane, c, func() func() {
			errs := in.coord.Audit(ctx, c.Values)
			return func() { in.audited(c.Values, errs) }
		})
	}
	out.hints.Sift(now, func(id string, _ broker.Txn) bool {
		r := in.runs[id]
		return r != nil && r.phase == phaseStopping && r.handTo != "" // its handler has not returned
	})
	dispatch(in, &out.hints, now, func(_ []string, txns []broker.Txn) func() {
		_ = commitWithin(ctx, b, in.session.Timing().Try, txns) // they are hints
		return func() {}
	})
	dispatch(in, &out.commands, now, func(_ []string, txns []broker.Txn) func() {
		err := commitWithin(ctx, b, in.session.Timing().TTL, txns)
		return func() {
			in.troubleIf(err, "delete commands") // they go with the session, and are not carried out again
		}
	})
	in.sendDeaths(ctx, now)
	in.sendRefuted(ctx, now)
	if c, ok := out.info.Take(now); ok {
		begin(in, &out.info, c, in.publication(ctx))
	}
}

// troubleIf reports an error of a call to the broker, if there is one.
func (in *incarnation) troubleIf(err error, what string) {
	if err != nil {
		in.events.BrokerTrouble(fmt.Errorf("%s: %w", what, err))
	}
}

// isBusy reports whether there is something more important to do than to write audit records,
// for this node or, with what is left to claim, for another one.
func (in *incarnation) isBusy() bool {
	o := in.out
	return in.board.InFlight() > 0 || in.board.Foreign() > 0 || o.claims.Calls()+o.adopts.Calls() > 0 || !o.endings.Empty()
}

// wakeToSend reports the times at which something becomes due.
func (in *incarnation) wakeToSend(now time.Time, earlier func(time.Time)) {
	earlier(in.out.endings.Wake())
	if in.lost {
		return
	}
	if earlier(in.out.audit.Due(now, in.closing, in.isBusy())); in.closing {
		return
	}
	earlier(in.fleet.NextNamed())
	for _, l := range in.out.lanes() {
		earlier(l.Wake())
	}
}

// dispatch begins the due calls of a lane. A call returns a function that handles its
// answer in the loop.
func dispatch[K comparable, V any](in *incarnation, l *outbox.Lane[K, V], now time.Time, call func([]K, []V) func()) {
	for c, ok := l.Take(now); ok; c, ok = l.Take(now) {
		begin(in, l, c, func() func() { return call(c.Keys, c.Values) })
	}
}

// begin begins one call, outside the loop.
func begin[K comparable, V any](in *incarnation, l *outbox.Lane[K, V], c outbox.Call[K, V], call func() func()) {
	in.work.Go(func() {
		then := call()
		in.arrive(func() { l.Done(c); then() })
	})
}

// commitWithin applies independent transactions within a time limit, and returns the
// error of one that failed.
func commitWithin(ctx context.Context, b broker.Broker, limit time.Duration, txns []broker.Txn) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, r := range b.Commit(ctx, txns...) {
		if r.Err != nil {
			err = r.Err
		}
	}
	return err
}
