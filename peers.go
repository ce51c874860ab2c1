package windlass

import (
	"encoding/json"
	"time"

	"github.com/windlass-go/windlass/internal/mirror"
	"github.com/windlass-go/windlass/internal/schedule"
)

// applyNodes applies an update of the nodes' mirror.
func (in *incarnation) applyNodes(u mirror.Update) {
	now := time.Now()
	var changed []string
	switch {
	case u.Err != nil:
		in.events.BrokerTrouble(u.Err)
		return
	case u.Snapshot != nil:
		in.checkRevision(in.nodes.Revision(), u.Snapshot.Revision)
		changed = in.nodes.Reset(u.Snapshot)
		if in.fleet.Listed(now) {
			in.out.publishInfo()
		}
	default:
		changed = in.nodes.Apply(u.Batch)
	}
	if len(changed) > 0 {
		for _, name := range changed {
			if gone, ok := in.nodes.Gone(name); ok && gone.Session != in.session.ID() {
				in.nodeGone(name, gone, now)
			}
		}
		in.peersChanged(changed, now)
	}
	in.returnsChanged(now)
	in.readDeaths(now)
	in.checkRegistration()
	in.checkCordon()
	in.checkPauses()
	in.runCommands()
}

// peersChanged reads the other nodes again, and balances if that may be needed.
func (in *incarnation) peersChanged(changed []string, now time.Time) {
	isChanged := map[string]bool{}
	for _, name := range changed {
		isChanged[name] = true
	}
	var peers []schedule.Peer
	for _, n := range in.nodes.Registered() {
		if n.Name == in.config.Name {
			continue
		}
		if p := in.fleet.Peer(n.Name); p != nil && !isChanged[n.Name] {
			peers = append(peers, *p)
		} else {
			peers = append(peers, in.readPeer(n.Name, n.Info))
		}
	}
	change := in.fleet.Update(peers, func(name string) (schedule.Peer, bool) {
		gone, ok := in.nodes.Gone(name)
		if !ok {
			return schedule.Peer{}, false
		}
		return in.readPeer(name, gone.Info), true
	}, now)
	for _, name := range change.Back {
		in.board.Back(name)
	}
	if change.Braked > 0 {
		in.events.Braked(change.Braked, in.config.FailoverRate)
	}
	if change.ShortLived {
		in.board.LifetimesChanged(now)
	}
	if change.Same {
		return
	}
	in.board.FleetChanged()
	in.giving.FleetChanged(change.Joined, now)
}

// readPeer parses a registration. An unreadable one is a node that exists and takes
// nothing.
func (in *incarnation) readPeer(name string, value []byte) schedule.Peer {
	var info NodeInfo
	if err := json.Unmarshal(value, &info); err != nil {
		in.events.Corrupt(in.node.space.NodeInfo(name), err)
		info = NodeInfo{Frozen: true}
	}
	info.Name = name
	p := schedule.Peer{
		Node: info.Placed(), Incarnation: info.Incarnation,
		Frozen: info.Frozen || info.Cordoned || !info.Probation.IsZero(), Cordoned: info.Cordoned,
		Draining: info.Draining, Returning: info.Returning, Overloaded: info.Overloaded,
		ShortLived: schedule.ValidTypes(info.ShortLived),
	}
	p.ReturnWithin = info.returnWithin()
	return p
}
