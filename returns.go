package windlass

import (
	"errors"
	"time"

	"github.com/windlass-go/windlass/broker"
	"github.com/windlass-go/windlass/coordinator"
	"github.com/windlass-go/windlass/events"
	"github.com/windlass-go/windlass/internal/deaths"
	"github.com/windlass-go/windlass/internal/returns"
	"github.com/windlass-go/windlass/internal/schedule"
)

// promise returns the operation that stores the promise of a node to be back.
func (in *incarnation) promise(node string, info []byte, within time.Duration) broker.Op {
	p := returns.Promise{Until: time.Now().Add(within).UTC(), Info: info}
	return broker.Put(in.node.space.NodeReturn(node), p.Encode())
}

// keepsPlace reports whether a note is to say that this node, which stops and is to be back, held
// the task of a run last. Nodes that start meanwhile have not seen it.
func (in *incarnation) keepsPlace(r *run) bool {
	return in.stage == stageClosing && in.info.Returning && r.handTo == "" && errors.Is(r.cause, ErrDraining) && !in.tasks.HasNote(r.claim.held.ID)
}

// keepFor stores the promise of a node that has vanished: it had no time to do so itself.
func (in *incarnation) keepFor(name string, info []byte, i *NodeInfo, now time.Time) {
	if in.stage != stageWorking || i.returnWithin() == 0 || i.Cordoned {
		return
	}
	if in.deaths.IsYounger() {
		now = now.Add(deaths.RecordAfter)
	}
	key := in.node.space.NodeReturn(name)
	in.out.deaths.Put(key, broker.Txn{
		If:   []broker.Cond{broker.Absent(in.node.space.NodeInfo(name)), broker.Absent(key)},
		Then: []broker.Op{in.promise(name, info, i.returnWithin())},
	}, now)
}

// noteKept notes beside the tasks that nodes held when they vanished that they are kept for them.
func (in *incarnation) noteKept(died []events.Death, now time.Time) {
	vanished := map[string]bool{}
	for i := range died {
		vanished[died[i].Node] = in.fleet.KeepsFor(died[i].Node)
	}
	if len(vanished) == 0 || in.deaths.IsYounger() {
		return
	}
	for t := range in.tasks.All() {
		if t.Owned() || !vanished[t.Last] || in.tasks.HasNote(t.ID) {
			continue
		}
		exists, key := in.node.space.Task(t.ID), in.node.space.Handover(t.ID)
		if !t.HasKey {
			exists = in.node.space.Props(t.ID)
		}
		in.out.deaths.Put(key, broker.Txn{
			If:   []broker.Cond{broker.Created(exists, t.Created), broker.Absent(in.node.space.Owner(t.ID)), broker.Absent(key)},
			Then: []broker.Op{broker.Put(key, coordinator.OwnerValue(t.Last))},
		}, now)
	}
}

// returnsChanged reads who is away and is to be back.
func (in *incarnation) returnsChanged(now time.Time) {
	if !in.nodes.ReturnsChanged() {
		return
	}
	var all []schedule.Away
	for _, n := range in.nodes.Away() {
		p, err := returns.Parse(n.Return.Value, ReturnWithinMax, now)
		if err != nil {
			in.events.Corrupt(n.Return.Key, err)
			continue
		}
		all = append(all, schedule.Away{Node: in.readPeer(n.Name, p.Info).Node, Until: p.Until})
	}
	freed := in.fleet.Promised(all)
	for _, n := range in.nodes.Cordoned() {
		if in.fleet.Forsake(n.Name) {
			freed = append(freed, n.Name)
		}
	}
	for _, name := range freed {
		in.board.Back(name)
	}
	in.deaths.ForgetLater(now)
}

// forgetGone deletes the records of deaths that no longer count, and the promises that were not kept.
func (in *incarnation) forgetGone(now time.Time) {
	if !in.deaths.Forget(now) {
		return
	}
	for _, n := range in.nodes.Promised() {
		if p, err := returns.Parse(n.Return.Value, ReturnWithinMax, now); err == nil && now.Before(p.Until) {
			continue
		}
		key := n.Return.Key
		in.out.deaths.Put(key, broker.Txn{
			If: []broker.Cond{broker.Modified(key, n.Return.Modified)}, Then: []broker.Op{broker.Delete(key)},
		}, now)
	}
}
