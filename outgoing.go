package windlass

import (
	"context"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/journal"
	"github.com/windlass-go/windlass/internal/life"
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
	audit       *journal.Journal
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
	// rows has them all except audit. begin makes a call outside the loop, and handles its answer in it.
	rows  []row
	begin outbox.Begin
}

// newOutgoing returns empty lanes, except for the audit records that are left of an earlier session.
func newOutgoing(node, incarnation string, left []coordinator.AuditRecord) *outgoing {
	o := &outgoing{audit: journal.New(node, incarnation, claimBatchMax, left)}
	o.info.BatchMax, o.info.CallsMax = 1, 1
	return o
}

// row is a lane, and the last stage in which it is sent: a node that closes asks nothing more, and once the session is lost,
// only that is sent of which somebody waits for the outcome.
type row struct {
	until stage
	outbox.Row
}

// rowsOf returns all lanes except the audit queue, which has rules of its own, in the order in which they are sent.
func rowsOf(in *incarnation) []row {
	o, all, begin := in.out, outbox.Unbounded, in.out.begin
	const batch, calls = claimBatchMax, callsInFlightMax
	claims := outbox.NewRow(&o.claims, batch, calls, begin, func(ctx context.Context, _ []string, wanted []coordinator.Wanted) func() {
		results := in.coord.Claim(ctx, wanted)
		return func() { in.claimed(wanted, results, false) }
	}).After(func(now time.Time) {
		o.claims.CallsMax = calls - o.adopts.Calls() // these count as calls to claim
		o.claims.Sift(now, in.isFree)
	})
	adopts := outbox.NewRow(&o.adopts, all, all, begin, func(ctx context.Context, ids []string, wanted []coordinator.Wanted) func() {
		results := in.coord.Adopt(ctx, ids)
		return func() { in.claimed(wanted, results, true) }
	}).After(func(now time.Time) {
		o.adopts.Sift(now, func(id string, _ coordinator.Wanted) bool { return in.isOrphan(id) })
	})
	endings := outbox.NewRow(&o.endings, batch, calls, begin, func(ctx context.Context, _ []string, endings []coordinator.Ending) func() {
		results := in.coord.End(ctx, endings)
		return func() { in.ended(endings, results) }
	})
	discards := outbox.NewRow(&o.discards, all, all, begin, func(ctx context.Context, handled []discard, endings []coordinator.Ending) func() {
		results := in.coord.End(ctx, endings)
		return func() { in.discarded(handled, endings, results) }
	})
	checkpoints := outbox.NewRow(&o.checkpoints, batch, calls, begin, func(ctx context.Context, outcomes []chan<- coordinator.Ended, endings []coordinator.Ending) func() {
		for i, ended := range in.coord.End(ctx, endings) {
			outcomes[i] <- ended
		}
		return func() {}
	})
	hints := outbox.NewRow(&o.hints, all, all, begin, func(ctx context.Context, _ []string, txns []broker.Txn) func() {
		_ = commitWithin(ctx, in.config.Broker, in.session.Timing().Try, txns) // they are hints
		return func() {}
	}).After(func(now time.Time) {
		o.hints.Sift(now, func(id string, _ broker.Txn) bool {
			r := in.runs[id]
			return r != nil && r.phase == life.Stopping && r.handTo != "" // its handler has not returned
		})
	})
	commands := outbox.NewRow(&o.commands, all, all, begin, func(ctx context.Context, _ []string, txns []broker.Txn) func() {
		err := commitWithin(ctx, in.config.Broker, in.session.Timing().TTL, txns)
		return func() { in.troubleIf(err, "delete commands") } // they go with the session, and are not carried out again
	})
	deaths := outbox.NewRow(&o.deaths, all, all, begin, in.recordDied).After(func(now time.Time) {
		o.deaths.Sift(now, func(incarnation string, _ broker.Txn) bool { return !in.deaths.Has(incarnation) })
	})
	return []row{
		{stageLost, claims}, {stageWorking, adopts},
		{stageWorking, outbox.NewRow(&o.asks, 1, all, begin, in.ask)},
		{stageWorking, outbox.NewRow(&o.changes, batch, calls, begin, in.readAgain)},
		{stageLost, endings}, {stageClosing, discards}, {stageLost, checkpoints},
		{stageClosing, hints}, {stageClosing, commands}, {stageClosing, deaths},
		{stageClosing, outbox.NewRow(&o.refuted, 1, 1, begin, in.bringBack)},
		{stageClosing, outbox.Row{Lane: &o.info, Send: in.publish}},
	}
}

// publishInfo queues the publication of the node's registration.
func (o *outgoing) publishInfo() { o.info.Put(struct{}{}, struct{}{}, time.Time{}) }

// toldOthers reports whether the node's current registration was published. In the
// plans of other nodes, a task that is given away before would be assigned to this
// node.
func (o *outgoing) toldOthers() bool { return o.info.Empty() }

// settled reports whether the node may leave: no call is in flight, and no ending
// waits. While its session is not lost, the node also writes the audit records, and publishes
// that it is leaving.
func (o *outgoing) settled(lost bool) bool {
	calls := o.audit.Calls()
	for i := range o.rows {
		calls += o.rows[i].Lane.Calls()
	}
	return calls+o.endings.Len() == 0 && (lost || o.audit.Len()+o.info.Len() == 0)
}

// send sends what is due.
func (in *incarnation) send(ctx context.Context, now time.Time) {
	for i := range in.out.rows {
		if r := &in.out.rows[i]; in.stage <= r.until {
			r.Send(ctx, now)
		}
	}
	if in.stage == stageLost {
		return
	}
	out := in.out
	if c, ok := out.audit.Take(now, in.stage == stageClosing, in.isBusy()); ok {
		in.markRecorded(c.Values)
		out.audit.Begin(c, out.begin, func() func() {
			errs := in.coord.Audit(ctx, c.Values)
			return func() { in.audited(c.Values, errs) }
		})
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
	if in.stage == stageLost {
		return
	}
	if earlier(in.out.audit.Due(now, in.stage == stageClosing, in.isBusy())); in.stage == stageClosing {
		return
	}
	earlier(in.fleet.NextNamed())
	for i := range in.out.rows {
		earlier(in.out.rows[i].Lane.Wake())
	}
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
