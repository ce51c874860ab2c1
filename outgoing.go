package windlass

import (
	"context"
	"fmt"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/internal/outbox"
)

// outgoing is all that a node has to tell the broker or to ask it: a lane for each sort.
type outgoing struct {
	claims outbox.Lane[string, coordinator.Wanted]
	// adopts ask about claims that the copy shows as this node's and that no run belongs to.
	// Nothing else is begun with those meanwhile, so that an answer is never older than what
	// is known already.
	adopts outbox.Lane[string, coordinator.Wanted]
	// asks find out whether a command to a task is still there.
	asks    outbox.Lane[*order, asking]
	endings outbox.Lane[string, coordinator.Ending]
	// discards delete commands to tasks that changed nothing.
	discards outbox.Lane[discard, coordinator.Ending]
	// checkpoints have as their keys the channels on which their outcomes are waited for.
	checkpoints outbox.Lane[chan<- coordinator.Ended, coordinator.Ending]
	notes       journal
	// hints say where tasks are going whose handlers take their time.
	hints outbox.Lane[string, broker.Txn]
	// commands delete those to this node that were carried out.
	commands outbox.Lane[string, broker.Txn]
	// info publishes what the node is, as it is when that is sent. One call at a time does,
	// on the condition that the last one has written published, or else an older one that
	// is applied late would hide a newer one.
	info      outbox.Lane[struct{}, struct{}]
	published broker.Revision
}

// newOutgoing returns empty lanes of a node, but for the notes that are left of an earlier session.
func newOutgoing(node, incarnation string, left []coordinator.Note) *outgoing {
	o := &outgoing{notes: journal{node: node, incarnation: incarnation}}
	o.claims.BatchMax, o.claims.CallsMax = claimBatchMax, callsInFlightMax
	o.adopts.BatchMax, o.adopts.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.asks.BatchMax, o.asks.CallsMax = 1, outbox.Unbounded
	o.endings.BatchMax, o.endings.CallsMax = claimBatchMax, callsInFlightMax
	o.discards.BatchMax, o.discards.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.checkpoints.BatchMax, o.checkpoints.CallsMax = claimBatchMax, callsInFlightMax
	o.notes.BatchMax, o.notes.CallsMax = claimBatchMax, 1
	o.hints.BatchMax, o.hints.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.commands.BatchMax, o.commands.CallsMax = outbox.Unbounded, outbox.Unbounded
	o.info.BatchMax, o.info.CallsMax = 1, 1
	for _, n := range left {
		o.notes.Add(n)
	}
	return o
}

// lane is what all lanes have in common.
type lane interface {
	Wake() time.Time
	Calls() int
}

// lanes are all but the notes, which have rules of their own.
func (o *outgoing) lanes() [9]lane {
	return [...]lane{&o.claims, &o.adopts, &o.asks, &o.endings, &o.discards, &o.checkpoints, &o.hints, &o.commands, &o.info}
}

// publishInfo queues the publication of what the node is.
func (o *outgoing) publishInfo() { o.info.Put(struct{}{}, struct{}{}, time.Time{}) }

// settled reports whether the node may go: no call is under way, and no ending waits. While
// its session is not lost, it writes the notes too, and tells the others that it means to go.
func (o *outgoing) settled(lost bool) bool {
	calls := o.notes.Calls()
	for _, l := range o.lanes() {
		calls += l.Calls()
	}
	return calls+o.endings.Len() == 0 && (lost || o.notes.Len()+o.info.Len() == 0)
}

// send sends what is due: everything that is ready goes in the next call of its lane, and
// nothing waits for a batch to fill. A node that closes asks about nothing any more. Once the
// session is lost, only endings and checkpoints are sent, whose outcome somebody waits for.
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
		dispatch(in, &out.asks, now, func(orders []*order, asked []asking) func() { return in.ask(orders[0], asked[0]) })
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
	if c, ok := out.notes.Take(now, in.closing, in.isBusy()); ok {
		in.markRecorded(c.Values)
		begin(in, &out.notes.Lane, c, func() func() {
			errs := in.coord.Note(ctx, c.Values)
			return func() { in.noted(c.Values, errs) }
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
			if err != nil { // they go with the session, and are not carried out again
				in.events.BrokerTrouble(fmt.Errorf("delete commands: %w", err))
			}
		}
	})
	if c, ok := out.info.Take(now); ok {
		begin(in, &out.info, c, in.publication(ctx))
	}
}

// isBusy reports whether there is something more important to do than to write notes, for
// this node or, with what is left to claim, for another one.
func (in *incarnation) isBusy() bool {
	o := in.out
	return in.board.InFlight() > 0 || in.board.Foreign() > 0 || o.claims.Calls()+o.adopts.Calls() > 0 || !o.endings.Empty()
}

// wakeToSend names the times at which something becomes due.
func (in *incarnation) wakeToSend(now time.Time, earlier func(time.Time)) {
	earlier(in.out.endings.Wake())
	if in.lost {
		return
	}
	if earlier(in.out.notes.Due(now, in.closing, in.isBusy())); in.closing {
		return
	}
	earlier(in.fleet.NextNamed())
	for _, l := range in.out.lanes() {
		earlier(l.Wake())
	}
}

// dispatch begins the calls of a lane that are due. What a call returns follows from its
// answer, in the loop.
func dispatch[K comparable, V any](in *incarnation, l *outbox.Lane[K, V], now time.Time, call func([]K, []V) func()) {
	for c, ok := l.Take(now); ok; c, ok = l.Take(now) {
		begin(in, l, c, func() func() { return call(c.Keys, c.Values) })
	}
}

// begin begins one call, beside the loop.
func begin[K comparable, V any](in *incarnation, l *outbox.Lane[K, V], c outbox.Call[K, V], call func() func()) {
	in.work.Go(func() {
		then := call()
		in.arrive(func() { l.Done(c); then() })
	})
}

// commitWithin applies independent transactions, for so long, and returns an error of one
// that failed.
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
