package windlass

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/layout"
	"github.com/windlass-go/windlass/internal/pause"
)

// register writes the node's info key, and the layout's version if there is none. If
// another session holds the name, register waits twice as long as that session can
// last, because a renewal of a dead holder may be in flight, or the broker may change
// its leader. A holder that is still alive then keeps the name.
func (in *incarnation) register(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(in.session.Context(), cancel)()
	var holder, layout *broker.KV
	var since time.Time
	died := 0
	var before *deaths.Predecessor
	txn := in.registration(layout)
	for { // the first attempt only finds out, but for the first node ever
		r, err := broker.CommitOne(ctx, in.config.Broker, txn)
		switch {
		case err != nil && !broker.Temporary(err):
			return fmt.Errorf("register node %q: %w", in.config.Name, err)
		case err != nil:
			in.events.BrokerTrouble(err)
			since = time.Now() // a broker that was away may have given every session its whole TTL again
		case r.OK:
			in.infoCreated, in.out.published = r.Revision, r.Revision
			in.succeed(ctx, holder, before)
			return nil
		case r.Reads[0] != nil && r.Reads[0].Session == in.session.ID():
			in.infoCreated, in.out.published = r.Reads[0].Created, r.Reads[0].Modified // an earlier attempt was applied
			in.succeed(ctx, holder, before)
			return nil
		case !sameRevision(r.Reads[1], layout):
			layout, in.info.Cordoned = r.Reads[1], r.Reads[2] != nil
			if err := in.acceptLayout(layout); err != nil {
				return err
			}
			died = deaths.CountExcess(ctx, in.config.Broker, in.node.space, in.config.Name, in.node.survived)
			in.info.Probation = deaths.Probation(died)
			txn = in.registration(layout)
			continue
		case r.Reads[0] != nil && (holder == nil || holder.Created != r.Reads[0].Created):
			holder, since = r.Reads[0], time.Now()
			if before = nil; in.dead(holder) != "" {
				before = deaths.FindPredecessor(ctx, in.config.Broker, in.node.space, holder, holderTTL(holder.Value))
			}
			in.takeBack(ctx)
			in.events.Waiting(fmt.Errorf("%w: %q; waiting for %v at most, in case its session expires", ErrNameTaken, in.config.Name, waitForName(holder)))
		case holder != nil && time.Since(since) > waitForName(holder):
			return fmt.Errorf("%w: %q", ErrNameTaken, in.config.Name)
		}
		if err == nil {
			counted := died
			if in.dead(r.Reads[0]) != "" { // by the time its key is gone
				counted++
			}
			in.info.Probation = deaths.Probation(counted)
			txn = in.registration(layout)
		}
		if !pause.For(ctx, in.session.Timing().Renew/10) {
			return errors.Join(context.Cause(in.session.Context()), ctx.Err())
		}
	}
}

// registration returns the transaction that registers the node. It applies only to the
// layout that was read before, and creates the layout if there was none, so that no
// node ever joins a layout that it has not checked.
func (in *incarnation) registration(known *broker.KV) broker.Txn {
	key, layoutKey := in.node.space.NodeInfo(in.config.Name), in.node.space.Layout()
	txn := broker.Txn{
		If: []broker.Cond{broker.Absent(key)},
		Then: []broker.Op{
			broker.PutSession(key, in.info.encode(), in.session.ID()),
			broker.Delete(in.node.space.NodeReturn(in.config.Name)), // it is back
			// Commands to an earlier node of this name are lost with it.
			broker.DeleteTree(in.node.space.NodeCommands(in.config.Name)),
		},
		Else: []broker.Op{broker.Read(key), broker.Read(layoutKey), broker.Read(in.node.space.NodeCordon(in.config.Name))},
	}
	if known != nil {
		txn.If = append(txn.If, broker.Modified(layoutKey, known.Modified))
		return txn
	}
	txn.If = append(txn.If, broker.Absent(layoutKey))
	txn.Then = append(txn.Then, broker.Put(layoutKey, layout.Now()))
	return txn
}

// acceptLayout decides whether to join a namespace. An unreadable value is reported and
// does not prevent joining.
func (in *incarnation) acceptLayout(found *broker.KV) error {
	if found == nil {
		return nil
	}
	version, err := layout.Parse(found.Value)
	if err != nil {
		in.events.Corrupt(found.Key, err)
		return nil
	}
	return layout.Check(in.node.space.Root(), version)
}

// waitForName returns how long to wait for a name that another session holds.
func waitForName(holder *broker.KV) time.Duration { return 2*holderTTL(holder.Value) + time.Second }

// sameRevision reports whether two reads of a key, nil if it did not exist, saw the
// same revision.
func sameRevision(a, b *broker.KV) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Modified == b.Modified
}

// setMode changes and publishes what the node claims.
func (in *incarnation) setMode(frozen, cordoned, draining bool) {
	if in.info.Frozen == frozen && in.info.Cordoned == cordoned && in.info.Draining == draining {
		return
	}
	in.info.Frozen, in.info.Cordoned, in.info.Draining = frozen, cordoned, draining
	in.out.publishInfo()
	if !draining {
		in.giving.EndDrain() // or the loop would be woken for it again and again
		in.stay()
	}
	in.node.mu.Lock()
	in.node.frozen = frozen
	in.node.mu.Unlock()
	if in.frozenOrLeaving() {
		in.dropQueued()
		return
	}
	in.board.Reconsider()
}

// publish publishes the node's registration as it is now, if that is due.
func (in *incarnation) publish(ctx context.Context, now time.Time) {
	c, due := in.out.info.Take(now)
	if !due {
		return
	}
	key, value := in.node.space.NodeInfo(in.config.Name), in.info.encode()
	txn := broker.Txn{
		If:   []broker.Cond{broker.Modified(key, in.out.published)},
		Then: []broker.Op{broker.PutSession(key, value, in.session.ID())},
		Else: []broker.Op{broker.Read(key)},
	}
	if in.stage == stageClosing && in.info.Returning {
		txn.Then = append(txn.Then, in.promise(in.config.Name, value, in.config.ReturnWithin))
	}
	listed := in.nodes.Revision() > 0
	in.out.info.Begin(c, in.out.begin, func() func() {
		r, err := broker.CommitOne(ctx, in.config.Broker, txn)
		return func() { in.infoPublished(r, err, listed) }
	})
}

// infoPublished handles the result of publishing the registration. listed is true if
// the nodes had been listed when the call began.
func (in *incarnation) infoPublished(r broker.Result, err error, listed bool) {
	switch {
	case err != nil:
		in.events.BrokerTrouble(fmt.Errorf("publish node info: %w", err))
		if (broker.Temporary(err) || errors.Is(err, broker.ErrPermission)) && in.stage != stageClosing {
			in.out.publishInfo()
			in.out.info.Pause(time.Now().Add(retryEnd)) // rights are given back, too
		}
	case r.OK:
		if in.out.published = r.Revision; listed {
			in.fleet.Published(r.Revision)
		}
	case r.Reads[0] != nil && r.Reads[0].Session == in.session.ID():
		// An attempt whose outcome was unknown was applied after all.
		in.out.published = r.Reads[0].Modified
		in.out.publishInfo()
	}
}

// checkRegistration ends the incarnation if its registration is gone: another node
// could have the name by now.
func (in *incarnation) checkRegistration() {
	if in.stage != stageWorking || in.nodes.Revision() < in.infoCreated {
		return
	}
	if n := in.nodes.Get(in.config.Name); n == nil || n.Session != in.session.ID() {
		in.session.End(fmt.Errorf("%w: the registration of node %q is gone", ErrLost, in.config.Name))
	}
}

// checkCordon follows the node's own cordon. Its end also ends a drain.
func (in *incarnation) checkCordon() {
	if in.stage != stageWorking || in.nodes.Revision() == 0 {
		return
	}
	n := in.nodes.Get(in.config.Name)
	cordoned := n != nil && n.Cordoned
	if cordoned == in.info.Cordoned {
		return
	}
	if !cordoned {
		in.node.draining.Store(false)
	}
	in.setMode(in.info.Frozen, cordoned, in.info.Draining && cordoned)
}

// Thresholds for Config.Load, in hundredths.
const (
	// OverloadedAt is the load from which on a node takes no more tasks.
	OverloadedAt = 90
	// RelievedAt is the load below which it takes tasks again.
	RelievedAt = 80
	// loadShown is the smallest change that is published to others.
	loadShown = 5
)

// loadStep reads the node's load every loadEvery, and publishes changes.
func (in *incarnation) loadStep(now time.Time) {
	if in.config.Load == nil || now.Before(in.loadAt) {
		return
	}
	in.loadAt = now.Add(loadEvery)
	said := in.config.Load()
	if math.IsNaN(said) {
		return // that says nothing
	}
	load := int(min(max(said, 0), 1) * 100)
	overloaded := load >= OverloadedAt || (in.info.Overloaded && load >= RelievedAt)
	if changed := load - in.info.Load; overloaded == in.info.Overloaded && max(changed, -changed) < loadShown {
		return
	}
	relieved := in.info.Overloaded && !overloaded
	in.info.Load, in.info.Overloaded = load, overloaded
	in.out.publishInfo()
	if relieved {
		in.board.Reconsider()
	}
}

// lateStep publishes how late this node learns of others' changes, how slowly its session
// was renewed, and which types it has found to be short-lived.
func (in *incarnation) lateStep(now time.Time) {
	behind := ""
	if late := in.board.Lag.Told(now); late > 0 {
		behind = late.String()
	}
	if behind != in.info.Behind {
		in.info.Behind = behind
		in.out.publishInfo()
	}
	if slow := in.slowRenewal(); slow != in.info.SlowRenewal {
		in.info.SlowRenewal = slow
		in.out.publishInfo()
	}
	if types, changed := in.fleet.Named(now); changed {
		in.info.ShortLived = types
		in.out.publishInfo()
		in.board.LifetimesChanged(now)
	}
}

// slowRenewal returns what to publish as NodeInfo.SlowRenewal. While renewals are slow, it
// changes only when one takes twice as long: each publication costs every node a message.
func (in *incarnation) slowRenewal() string {
	slowest := in.session.SlowestRenewal()
	if slowest == 0 {
		return ""
	}
	if told, err := time.ParseDuration(in.info.SlowRenewal); err == nil && slowest >= told && slowest < 2*told {
		return in.info.SlowRenewal
	}
	return slowest.Round(10 * time.Millisecond).String()
}
